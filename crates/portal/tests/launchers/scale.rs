//! Measures the cost of the portal with five thousand sessions. KWOK simulates the nodes.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use openuvr_portal::launch::{Launcher, Phase};
use tokio::runtime::Runtime;

use super::clusters::Kubernetes;
use super::suite::{Engine as _, spec};
use super::support::{Installation, wait};

const SESSIONS: usize = 5000;
/// Number of nodes. Each node has eight GPUs, so the sessions use all GPUs.
const NODES: usize = SESSIONS / 8;
/// Concurrent launches.
const AT_ONCE: usize = 64;
/// Time limit for placing all sessions. A cluster that places fewer than 30 sessions per second is broken.
const TIMEOUT: Duration = Duration::from_secs(170);

#[test]
#[ignore = "needs a cluster of Kubernetes, and minutes: ./dev test-cluster scale"]
fn five_thousand_sessions_are_placed_and_found_again() {
    let mut cluster = Kubernetes::simulate(NODES);
    let runtime = Runtime::new().unwrap();
    let launcher = cluster.launcher();
    let watched = Arc::clone(&launcher);
    runtime.spawn(async move {
        let mut changes = watched.watch();
        while changes.next().await.is_some() {}
    });
    let begun = Instant::now();
    runtime.block_on(async {
        let specs = (0..SESSIONS).map(|_| {
            let mut spec = spec(&[]);
            spec.gpus = 1;
            spec
        });
        let launches = futures_util::stream::iter(specs).map(|spec| {
            let launcher = Arc::clone(&launcher);
            async move { launcher.launch(&spec).await.unwrap() }
        });
        launches
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<()>>()
            .await;
    });
    println!(
        "accepted by the API server: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    let placed = |launcher: &dyn Launcher| {
        let all = runtime.block_on(launcher.list()).unwrap();
        let has_place = |phase: &Phase| matches!(phase, Phase::Starting | Phase::Running { .. });
        (
            all.len(),
            all.iter().filter(|of| has_place(&of.phase)).count(),
        )
    };
    while placed(&*launcher).1 < SESSIONS {
        assert!(
            begun.elapsed() < TIMEOUT,
            "placed: {:?}",
            placed(&*launcher)
        );
        runtime.block_on(async { tokio::time::sleep(Duration::from_secs(5)).await });
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "placed: {SESSIONS} in {took:.1} s, {:.0} a second",
        SESSIONS as f64 / took
    );
    // One more session exceeds the capacity. The launcher reports why it is queued.
    let mut one_more = spec(&[]);
    one_more.gpus = 1;
    runtime.block_on(launcher.launch(&one_more)).unwrap();
    let why = loop {
        let all = runtime.block_on(launcher.list()).unwrap();
        let found = all
            .into_iter()
            .find(|of| of.session == one_more.session)
            .unwrap();
        match found.phase {
            Phase::Queued { why } if why.contains("Insufficient") => break why,
            other => assert!(begun.elapsed() < TIMEOUT, "{other:?}"),
        }
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    };
    println!("one more: {why}");
    // A restarted portal finds all sessions.
    let launcher = cluster.launcher();
    let begun = Instant::now();
    let all = runtime.block_on(launcher.list()).unwrap();
    println!(
        "a restarted portal lists {} in {:.2} s",
        all.len(),
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(all.len(), SESSIONS + 1);
    println!(
        "peak memory of this process: {} MB",
        peak_memory("self") / 1024
    );
    drop((launcher, all));
    for line in a_portal_shows_them(&cluster) {
        println!("{line}");
    }
}

/// Runs the portal itself with the same cluster. Measures the time until the portal lists all sessions, the response
/// time of an operator's list, and the memory.
fn a_portal_shows_them(cluster: &Kubernetes) -> [String; 3] {
    let place = Installation::new();
    let config = format!(
        "data = \"data\"\nlauncher = \"kubernetes\"\n[limits]\nstart = 3600\n[kubernetes]\n\
         image = \"openuvr.test/session:1\"\nkubeconfig = {:?}\n",
        cluster.kubeconfig()
    );
    place.write("portal.toml", &config);
    place.add_user("ada", &["--operator"]);
    let begun = Instant::now();
    let portal = place.start();
    let person = portal.log_in("ada");
    let list = || {
        let path = "/api/operator/sessions";
        person.request("GET", path, None).unwrap()
    };
    wait("the portal knows all", || {
        list().json().as_array().unwrap().len() == SESSIONS + 1
    });
    let known = begun.elapsed().as_secs_f64();
    let mut took: Vec<f64> = (0..20)
        .map(|_| {
            let begun = Instant::now();
            list();
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    took.sort_by(f64::total_cmp);
    let (middle, longest) = (took[took.len() / 2], took[took.len() - 1]);
    let memory = peak_memory(&portal.id().to_string()) / 1024;
    [
        format!("the portal shows all {known:.2} s after its start"),
        format!("its list takes {middle:.0} ms (median of 20), {longest:.0} at most"),
        format!("peak memory of the portal: {memory} MB"),
    ]
}

/// The process's peak memory in kB.
fn peak_memory(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
