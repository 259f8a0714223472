"""The xDS control plane: it turns the fleet's topology into what Envoy serves by.

The way of a change: `topology_source` reads the document, `replica_loads` the replicas, and
`replica_api` takes what people ask for; `drains`, `effective`, `ramp` and `load_bound` decide, and
`fleet` holds the result, with `state_file` over restarts. `snapshot` turns it into resources,
`consistency` checks them, `xds_stream` decides what each Envoy hears, and `server` carries it.
The decisions are pure: they import no I/O.
"""
