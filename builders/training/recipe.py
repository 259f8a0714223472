"""The figures of the recipe: every number that the model card names, and no other place has it.

The card is `builders/reference_model/README.md`. `REFERENCE` is the card's recipe, `SMOKE` the
same shape of work in a size that two cores finish in seconds.
"""

from dataclasses import dataclass

from builders.training.packages import Package


@dataclass(frozen=True)
class ModelShape:
    """A Llama decoder with tied embeddings; field names as in a Hugging Face `config.json`."""

    num_hidden_layers: int = 6
    hidden_size: int = 256
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 704
    vocab_size: int = 8192
    max_position_embeddings: int = 1536
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6
    initializer_range: float = 0.02


@dataclass(frozen=True)
class CorpusLimits:
    """Which Python files are kept, and how much of one package."""

    file_bytes_min: int = 400
    file_bytes_max: int = 60_000
    mean_line_characters_max: float = 60.0
    longest_line_characters_max: int = 300
    digit_share_max: float = 0.12
    non_ascii_share_max: float = 0.02
    test_file_share: float = 0.15
    package_bytes_max: int = 2_000_000
    standard_library_bytes_max: int = 12_000_000


@dataclass(frozen=True)
class ExampleMix:
    """How a file becomes examples. Lengths count characters: kept files are 98 % ASCII or more."""

    window_min: int = 1_200
    window_max: int = 3_200
    plain_share: float = 0.12
    line_share: float = 0.50
    block_share: float = 0.30  # what is left after lines and blocks are random spans
    line_from_indentation_share: float = 0.50
    block_lines_max: int = 16
    span_max: int = 160
    suffix_lengths: tuple[int, ...] = (0, 200, 500, 900)
    suffix_first_share: float = 0.87
    snippet_share: float = 0.30
    snippets_max: int = 2
    snippet_min: int = 200
    snippet_max: int = 800


@dataclass(frozen=True)
class Optimisation:
    """Optimiser, schedule and batch figures. Shares are of the whole run's progress."""

    muon_rate: float = 0.02
    muon_momentum: float = 0.95
    muon_weight_decay: float = 0.05
    adamw_rate: float = 4e-3
    adamw_betas: tuple[float, float] = (0.9, 0.95)
    peak_scale: float = 1.0  # below 1 when training goes on from trained weights
    warmup_steps: int = 100
    decay_from: float = 0.60
    final_scale: float = 0.02
    gradient_norm_max: float = 1.0
    tokens_per_step: int = 12_288
    micro_batch_tokens: int = 3_072
    short_row_tokens: int = 512
    long_row_tokens: int = 1_536
    long_rows_from: float = 0.60
    steps: int = 1_622


@dataclass(frozen=True)
class EvaluationPlan:
    """What is measured on the held-out packages."""

    files: int = 60
    infilling_cases: int = 300
    infilling_tokens_max: int = 48
    prefix_characters: int = 2_000
    suffix_characters: int = 500


@dataclass(frozen=True)
class Recipe:
    """One whole run, apart from its seed and its folders."""

    shape: ModelShape
    limits: CorpusLimits
    mix: ExampleMix
    optimisation: Optimisation
    evaluation: EvaluationPlan


# Never learnt from. The versions are those of the package list's day.
HELD_OUT_PACKAGES = (
    Package("networkx", "3.6.1"),
    Package("httpx", "0.28.1"),
    Package("flask", "3.1.3"),
    Package("rich", "15.0.0"),
    Package("attrs", "26.1.0"),
    Package("click", "8.5.0"),
    Package("starlette", "1.7.0"),
    Package("aiofiles", "25.1.0"),
    Package("schedule", "1.2.2"),
    Package("tabulate", "0.10.0"),
)

REFERENCE = Recipe(ModelShape(), CorpusLimits(), ExampleMix(), Optimisation(), EvaluationPlan())

SMOKE = Recipe(
    shape=ModelShape(
        num_hidden_layers=2,
        hidden_size=32,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=64,
        max_position_embeddings=256,
    ),
    limits=CorpusLimits(standard_library_bytes_max=400_000),
    mix=ExampleMix(),
    optimisation=Optimisation(
        warmup_steps=2,
        tokens_per_step=1_024,
        micro_batch_tokens=512,
        short_row_tokens=128,
        long_row_tokens=256,
        steps=12,
    ),
    evaluation=EvaluationPlan(
        files=4,
        infilling_cases=3,
        infilling_tokens_max=8,
        prefix_characters=300,
        suffix_characters=100,
    ),
)
