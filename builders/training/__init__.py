"""The training of the reference fill-in-the-middle model, one module for each stage.

`fetch` gets the packages, `corpus` filters them, `examples` and `batches` turn files into token
rows, `loop` trains, `evaluation` and `infilling` judge, `export` writes the Hugging Face layout.
Nothing here is imported by the serving path; only this package needs torch.
"""
