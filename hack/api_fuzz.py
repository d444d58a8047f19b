"""Names of what there is, so that not every question is about nothing."""

import os

import schemathesis

KNOWN = {"cluster_id": os.environ["CLUSTER"], "node_id": "dev", "workload_id": "web"}
BY_PATH = {"/workloads/": "web", "/nodes/": "dev"}


@schemathesis.hook
def before_call(context, case, kwargs):
    """What fits the description is asked about what there is every other time. What a workload prints is
    asked for as it is by now: following it has no end."""
    if isinstance(case.query, dict) and str(case.query.get("follow")).lower() in ("true", "1"):
        case.query["follow"] = "false"
    if case.meta is None or str(case.meta.generation.mode.value) != "positive":
        return
    parameters = case.path_parameters or {}
    for name in parameters:
        if name in KNOWN:
            parameters[name] = KNOWN[name]
        elif name == "id" and len(str(parameters[name])) % 2 == 0:
            for part, known in BY_PATH.items():
                if part in case.operation.path:
                    parameters[name] = known
