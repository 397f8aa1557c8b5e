"""Clusters on this machine, for tests of the portal's launchers: `python3 crates/portal/cluster ENGINE VERB FOLDER`.

ENGINE is slurm or kubernetes. A cluster keeps its state and its logs in FOLDER. VERB and its further arguments:

slurm up FOLDER [NAMESPACE CONTROLLER NODE]       network namespace of the nodes; addresses of controller and nodes
kubernetes up FOLDER PROGRAM [BRIDGE SUBNET]      program that session containers run; bridge and subnet of the Pods
kubernetes simulate FOLDER NODES                  number of simulated nodes
slurm lose-node, return-node FOLDER NODE          name of the node
kubernetes lose-node, return-node FOLDER
ENGINE lose-controller, return-controller, down FOLDER
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
