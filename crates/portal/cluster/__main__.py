"""Clusters on this machine, for tests of the portal's launchers: `python3 crates/portal/cluster ENGINE VERB FOLDER`.

ENGINE is slurm or kubernetes. VERB is up (slurm: up FOLDER [NAMESPACE CONTROLLER NODE], the network namespace of its nodes
and both addresses; kubernetes: up FOLDER PROGRAM [BRIDGE SUBNET], the program of session containers, and the Pod
network), down, lose-node, return-node (slurm: with the node's name), lose-controller, return-controller, and for kubernetes
simulate FOLDER NODES. A cluster writes only to FOLDER.
"""

import importlib
import shutil
import sys
from pathlib import Path

ENGINES = ["slurm", "kubernetes"]
VERBS = ["up", "simulate", "down", "lose-node", "return-node", "lose-controller", "return-controller"]


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ENGINES or sys.argv[2] not in VERBS:
        sys.exit(__doc__)
    engine = importlib.import_module(sys.argv[1])
    verb = getattr(engine, sys.argv[2].replace("-", "_"))
    folder = Path(sys.argv[3]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    engine.check([program for program in engine.NEEDED if not shutil.which(program)])
    verb(folder, *sys.argv[4:])


main()
