"""The xDS control plane: it turns the fleet's topology into what Envoy serves by.

The way of a change: `topology_source` reads the document, `topology` parses it, `snapshot` turns
it into resources, `consistency` checks them, `publisher` holds the result, `xds_stream` decides
what each Envoy hears, and `server` carries it. Everything but the first, `server`, `status` and
`main` is pure.
"""
