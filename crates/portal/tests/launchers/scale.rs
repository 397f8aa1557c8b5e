//! Five thousand sessions on nodes that KWOK simulates: what the portal's part of it costs.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use openuvr_portal::launch::{Launcher, Phase};
use tokio::runtime::Runtime;

use super::clusters::Kubernetes;
use super::suite::{Engine as _, spec};

const SESSIONS: usize = 5000;
/// Eight GPUs each, so that all are in use.
const NODES: usize = SESSIONS / 8;
/// Launches that are under way at once.
const AT_ONCE: usize = 64;
/// A cluster that places fewer than 30 a second is broken.
const PATIENCE: Duration = Duration::from_secs(170);

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
        "taken by the API server: {:.1} s",
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
            begun.elapsed() < PATIENCE,
            "placed: {:?}",
            placed(&*launcher)
        );
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(500)).await });
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "placed: {SESSIONS} in {took:.1} s, {:.0} a second",
        SESSIONS as f64 / took
    );
    // One more finds no room, and says why.
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
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    };
    println!("one more: {why}");
    // A portal that starts anew.
    let launcher = cluster.launcher();
    let begun = Instant::now();
    let all = runtime.block_on(launcher.list()).unwrap();
    println!(
        "a portal that starts anew lists {} in {:.2} s",
        all.len(),
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(all.len(), SESSIONS + 1);
    println!(
        "memory of this process at most: {} MB",
        peak_memory() / 1024
    );
}

/// In kB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
