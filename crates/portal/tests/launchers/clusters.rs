//! Engines with their own daemons, which `crates/portal/cluster` starts and stops on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use openuvr_portal::launch::kubernetes::{KubernetesConfig, Network};
use openuvr_portal::launch::slurm::SlurmConfig;
use openuvr_portal::launch::{Launcher, SessionId, kubernetes, slurm};
use tempfile::TempDir;

use super::suite::{Engine, program};

/// A Slurm cluster: a controller and four nodes, which together can run two sessions.
pub(crate) struct Slurm {
    cluster: Cluster,
    lost: Option<String>,
    failed: bool,
}

impl Slurm {
    pub(crate) fn start() -> Slurm {
        let cluster = Cluster::new("slurm");
        cluster.run("up", &[]);
        Slurm {
            cluster,
            lost: None,
            failed: false,
        }
    }

    fn configuration(&self) -> String {
        self.cluster
            .folder
            .path()
            .join("slurm.conf")
            .display()
            .to_string()
    }
}

impl Engine for Slurm {
    fn launcher(&mut self) -> Arc<dyn Launcher> {
        Arc::new(slurm::Slurm::new(SlurmConfig {
            program: vec![program().display().to_string()],
            options: vec!["--licenses=session:1".to_owned()],
            logs: Some(self.cluster.folder.path().to_owned()),
            environment: [("SLURM_CONF".to_owned(), self.configuration())].into(),
            ..SlurmConfig::default()
        }))
    }

    fn lose(&mut self, session: SessionId, _: i32) -> bool {
        let mut command = Command::new("squeue");
        command.args([
            "--noheader",
            "--format=%N",
            &format!("--name=ouvr-{session}"),
        ]);
        let node = output_of(command.env("SLURM_CONF", self.configuration()));
        self.cluster.run("lose-node", &[node.trim()]);
        self.lost = Some(node.trim().to_owned());
        true
    }

    /// The lost session starts no application, because this cluster could not end the application. Without control
    /// groups, Slurm tracks processes by their parents. When a node returns, Slurm first ends the session program, and
    /// an application would become an orphan.
    fn lost_words(&self) -> &'static [&'static str] {
        &[]
    }

    fn fail(&mut self) -> bool {
        self.cluster.run("lose-controller", &[]);
        self.failed = true;
        true
    }

    fn restore(&mut self) {
        if let Some(node) = self.lost.take() {
            self.cluster.run("return-node", &[&node]);
        }
        if std::mem::take(&mut self.failed) {
            self.cluster.run("return-controller", &[]);
        }
    }
}

/// A Kubernetes cluster: one node, which can run two sessions.
pub(crate) struct Kubernetes {
    cluster: Cluster,
    lost: bool,
    failed: bool,
}

impl Kubernetes {
    pub(crate) fn start() -> Kubernetes {
        let cluster = Cluster::new("kubernetes");
        cluster.run("up", &[&program().display().to_string()]);
        Kubernetes::of(cluster)
    }

    /// A cluster with this number of simulated nodes.
    pub(crate) fn simulate(nodes: usize) -> Kubernetes {
        let cluster = Cluster::new("kubernetes");
        cluster.run("simulate", &[&nodes.to_string()]);
        Kubernetes::of(cluster)
    }

    /// The portal's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.cluster.folder.path().join("portal.kubeconfig")
    }

    fn of(cluster: Cluster) -> Kubernetes {
        Kubernetes {
            cluster,
            lost: false,
            failed: false,
        }
    }
}

impl Engine for Kubernetes {
    fn launcher(&mut self) -> Arc<dyn Launcher> {
        Arc::new(kubernetes::Kubernetes::new(KubernetesConfig {
            kubeconfig: Some(self.kubeconfig()),
            unreachable: Duration::from_secs(5),
            // The cluster's node has no Pod network.
            network: Network::Host,
            ..KubernetesConfig::new("openuvr.test/session:1")
        }))
    }

    fn lose(&mut self, _: SessionId, _: i32) -> bool {
        self.cluster.run("lose-node", &[]);
        self.lost = true;
        true
    }

    fn fail(&mut self) -> bool {
        self.cluster.run("lose-controller", &[]);
        self.failed = true;
        true
    }

    fn restore(&mut self) {
        if std::mem::take(&mut self.lost) {
            self.cluster.run("return-node", &[]);
        }
        if std::mem::take(&mut self.failed) {
            self.cluster.run("return-controller", &[]);
        }
    }

    fn knows_output(&self) -> bool {
        false
    }
}

/// The daemons of a cluster, in its own folder. Only one cluster runs at a time, because its ports are fixed.
struct Cluster {
    engine: &'static str,
    folder: TempDir,
}

impl Cluster {
    fn new(engine: &'static str) -> Cluster {
        // The folder is accessible to all users, because the cluster's daemons run as several users.
        let anyone = fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .permissions(anyone)
            .tempdir()
            .unwrap();
        Cluster { engine, folder }
    }

    fn run(&self, verb: &str, more: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster");
        let mut command = Command::new("python3");
        command
            .arg(script)
            .args([self.engine, verb])
            .arg(self.folder.path())
            .args(more);
        output_of(&mut command);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.run("down", &[]);
    }
}

fn output_of(command: &mut Command) -> String {
    let done = command.output().unwrap();
    assert!(
        done.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8_lossy(&done.stdout).into_owned()
}
