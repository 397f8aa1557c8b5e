//! The contract that all launchers must fulfil.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use futures_util::StreamExt as _;
use openuvr_portal::launch::{LaunchError, LaunchSpec, Launcher, Observed, Phase, SessionId};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;

/// Timeout of an engine on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An engine under test. It has capacity for two sessions. Dropping it removes everything that it has started.
pub(crate) trait Engine {
    /// Opens a launcher of this engine, as a starting portal does. Needs a tokio runtime. An earlier launcher has been
    /// dropped.
    fn launcher(&mut self) -> Arc<dyn Launcher>;

    /// Makes the session lost while no portal runs. Returns whether that is possible.
    fn lose(&mut self, session: SessionId, pid: i32) -> bool;

    /// Makes the engine unavailable while sessions and launcher continue. Returns whether that is possible.
    fn fail(&mut self) -> bool;

    /// Makes the engine and lost nodes available again.
    fn restore(&mut self) {}

    /// Arguments of the session that is lost. By default, they start an application. An engine overrides them if it
    /// cannot end the application of a lost session whose server returns.
    fn lost_words(&self) -> &'static [&'static str] {
        &["--application"]
    }

    /// Whether the engine distinguishes a program's standard output from its standard error.
    fn knows_output(&self) -> bool {
        true
    }
}

/// A simulated portal process: a launcher, and a runtime that ends with it.
struct Portal {
    launcher: Arc<dyn Launcher>,
    runtime: Runtime,
    /// The reports of `watch`, in order.
    told: Arc<Mutex<Vec<Observed>>>,
}

impl Portal {
    fn start(engine: &mut dyn Engine) -> Portal {
        let runtime = Runtime::new().unwrap();
        let launcher = {
            let _in = runtime.enter();
            engine.launcher()
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let (mut changes, keep) = (launcher.watch(), Arc::clone(&told));
        runtime.spawn(async move {
            while let Some(change) = changes.next().await {
                if let Ok(change) = change {
                    keep.lock().unwrap().push(change);
                }
            }
        });
        Portal {
            launcher,
            runtime,
            told,
        }
    }

    fn launch(&self, spec: &LaunchSpec) -> Result<(), LaunchError> {
        self.runtime.block_on(self.launcher.launch(spec))
    }

    fn stop(&self, session: SessionId) {
        let stopped = self.launcher.stop(session, Duration::from_secs(5));
        self.runtime.block_on(stopped).unwrap();
    }

    fn list(&self) -> Vec<Observed> {
        self.runtime.block_on(self.launcher.list()).unwrap()
    }

    fn of(&self, session: SessionId) -> Option<Observed> {
        let mut all = self.list();
        all.retain(|of| of.session == session);
        assert!(all.len() <= 1, "duplicate {session}: {all:?}");
        all.pop()
    }

    /// Waits until `watch` reports a phase for which `is` returns true.
    fn until(&self, session: SessionId, what: &str, is: impl Fn(&Phase) -> bool) -> Observed {
        let mut found = None;
        wait(&format!("{session}: {what}"), || {
            let told = self.told.lock().unwrap();
            found = told
                .iter()
                .find(|of| of.session == session && is(&of.phase))
                .cloned();
            found.is_some()
        });
        found.unwrap()
    }

    fn until_running(&self, session: SessionId) -> Running {
        let observed = self.until(session, "runs", |of| matches!(of, Phase::Running { .. }));
        let Phase::Running { endpoint } = observed.phase else {
            unreachable!()
        };
        Running {
            at: endpoint.web.strip_prefix("https://").unwrap().to_owned(),
        }
    }

    fn until_ended(&self, session: SessionId) -> (Option<i32>, String) {
        let observed = self.until(session, "ended", |of| matches!(of, Phase::Ended { .. }));
        match observed.phase {
            Phase::Ended { code, why } => (code, why),
            _ => unreachable!(),
        }
    }

    /// Ends the simulated portal process.
    fn end(self) {
        drop(self.launcher);
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

/// The endpoint of a bare session, which is a session program without media.
struct Running {
    at: String,
}

impl Running {
    /// Sends a line to the session. Returns the id that the session reports.
    fn request(&self, tell: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.at).ok()?;
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap())
            .read_line(&mut line)
            .ok()?;
        writeln!(stream, "{tell}").ok()?;
        Some(line.trim().to_owned())
    }

    /// The process of the session program. Checks that the endpoint belongs to this session.
    fn pid(&self, session: SessionId) -> i32 {
        assert_eq!(self.request("").unwrap(), session.to_string());
        // The process is found by its name, because a process in a container may have another number there.
        let is_program = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.trim() == "bare_session"
        };
        processes(session).into_iter().find(is_program).unwrap()
    }
}

/// The session program of the tests.
pub(crate) fn program() -> PathBuf {
    let test = env::current_exe().unwrap();
    let program = test
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/bare_session");
    assert!(
        program.exists(),
        "cargo build -p openuvr-portal --examples builds {}",
        program.display()
    );
    program
}

pub(crate) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

pub(crate) fn spec(words: &[&str]) -> LaunchSpec {
    LaunchSpec {
        session: SessionId::random(),
        user: "ada".to_owned(),
        application: "bare".to_owned(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        environment: BTreeMap::new(),
        gpus: 0,
        millicores: 10,
        memory: 64 << 20,
        zone: None,
        max_duration: None,
        writable_root: false,
    }
}

pub(crate) fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !until() {
        assert!(Instant::now() < end, "timeout: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Processes of a session on this machine.
fn processes(session: SessionId) -> Vec<i32> {
    let wanted = format!("OPENUVR_SESSION={session}");
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        (environment.split(|byte| *byte == 0)).any(|of| of == wanted.as_bytes())
    };
    pids.filter(has).collect()
}

#[expect(clippy::print_stdout, reason = "a measurement for comparing engines")]
pub(crate) fn runs_and_answers(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&[]);
    let begun = Instant::now();
    portal.launch(&spec).unwrap();
    let running = portal.until_running(spec.session);
    println!(
        "{}: launched to running {:.2} s",
        portal.launcher.name(),
        begun.elapsed().as_secs_f64()
    );
    running.pid(spec.session);
    let listed = portal.of(spec.session).unwrap();
    assert_eq!(
        (listed.user.as_str(), listed.application.as_str()),
        ("ada", "bare")
    );
    assert!(
        listed.server.is_some() && !listed.engine_ref.is_empty(),
        "{listed:?}"
    );
    let servers = portal.runtime.block_on(portal.launcher.servers()).unwrap();
    assert_eq!(servers.iter().map(|of| of.sessions).sum::<u32>(), 1);
    portal.stop(spec.session);
    portal.until_ended(spec.session);
    portal.end();
}

pub(crate) fn is_started_once(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&[]);
    let launches = async {
        let one = || portal.launcher.launch(&spec);
        futures_util::future::join_all([one(), one(), one(), one()]).await
    };
    for launched in portal.runtime.block_on(launches) {
        launched.unwrap();
    }
    let running = portal.until_running(spec.session);
    let pid = running.pid(spec.session);
    portal.launch(&spec).unwrap();
    assert_eq!(processes(spec.session), [pid]);
    assert_eq!(portal.list().len(), 1);
    portal.stop(spec.session);
    portal.until_ended(spec.session);
    portal.end();
}

pub(crate) fn is_found_again(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&[]);
    portal.launch(&spec).unwrap();
    let pid = portal.until_running(spec.session).pid(spec.session);
    portal.end();

    let portal = Portal::start(engine);
    let found = portal.of(spec.session).expect("it is listed immediately");
    assert_eq!(
        (found.user.as_str(), found.application.as_str()),
        ("ada", "bare")
    );
    portal.launch(&spec).unwrap();
    assert_eq!(portal.until_running(spec.session).pid(spec.session), pid);
    assert_eq!(processes(spec.session), [pid]);
    portal.stop(spec.session);
    portal.until_ended(spec.session);
    wait("the end of its processes", || {
        processes(spec.session).is_empty()
    });
    portal.end();
}

pub(crate) fn ends_with_all_that_it_started(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&["--application"]);
    portal.launch(&spec).unwrap();
    let running = portal.until_running(spec.session);
    wait("both processes run", || processes(spec.session).len() == 2);
    portal.stop(spec.session);
    portal.until_ended(spec.session);
    wait("no remaining processes", || {
        processes(spec.session).is_empty()
    });
    assert_eq!(running.request(""), None);
    wait("it is forgotten", || portal.of(spec.session).is_none());
    // Stopping a forgotten or unknown session succeeds.
    portal.stop(spec.session);
    portal.stop(SessionId::random());
    portal.end();
}

pub(crate) fn ends_by_itself(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&[]);
    portal.launch(&spec).unwrap();
    portal.until_running(spec.session).request("exit 3");
    let (code, why) = portal.until_ended(spec.session);
    assert_eq!(code, Some(3), "{why}");
    let listed = portal
        .of(spec.session)
        .expect("it is listed until it is forgotten");
    assert!(listed.phase.is_final());
    // A repeated request starts no second program.
    portal.launch(&spec).unwrap();
    assert!(portal.of(spec.session).unwrap().phase.is_final());
    assert_eq!(processes(spec.session), [0; 0]);
    portal.stop(spec.session);
    wait("it is forgotten", || portal.of(spec.session).is_none());
    portal.end();
}

/// Tests the codes 124 and 127, because an engine may use timeout(1) and env(1), which return these codes, too.
pub(crate) fn reports_every_exit_code_as_its_own(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    for exit_code in [124, 127] {
        let mut spec = spec(&[]);
        spec.max_duration = Some(Duration::from_secs(3600));
        portal.launch(&spec).unwrap();
        let running = portal.until_running(spec.session);
        running.request(&format!("exit {exit_code}"));
        let (code, why) = portal.until_ended(spec.session);
        assert_eq!(code, Some(exit_code), "{why}");
        assert!(
            !why.contains("time") && !why.contains("program is not"),
            "{why}"
        );
        portal.stop(spec.session);
    }
    portal.end();
}

pub(crate) fn keeps_its_log(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&[]);
    portal.launch(&spec).unwrap();
    let log = || portal.runtime.block_on(portal.launcher.log(spec.session));
    let running = portal.until_running(spec.session);
    running.request("log the first line");
    let has = |text: &str| log().unwrap().is_some_and(|log| log.contains(text));
    wait("its log while it runs", || has("the first line\n"));
    running.request("log the last line");
    running.request("exit 3");
    portal.until_ended(spec.session);
    wait("its log after its end", || {
        has("the first line\nthe last line\n")
    });
    portal.stop(spec.session);
    wait("removal of its log", || log().unwrap().is_none());
    portal.end();
}

/// This case is only for engines whose sessions have their own root file system.
pub(crate) fn writes_only_to_its_volumes(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let mut spec = spec(&[]);
    let outcome = |spec: &LaunchSpec, path: &str| {
        let running = portal.until_running(spec.session);
        running.request(&format!("create {path}"));
        let mut found = None;
        wait(&format!("the outcome of {path}"), || {
            let log = portal.launcher.log(spec.session);
            let log = portal.runtime.block_on(log).unwrap().unwrap_or_default();
            let mut lines = log.lines();
            found = lines.find_map(|line| Some(line.strip_prefix(path)?.to_owned()));
            found.is_some()
        });
        found.unwrap()
    };
    portal.launch(&spec).unwrap();
    for path in ["/tmp/file", "/home/openuvr/file", "/dev/shm/file"] {
        assert_eq!(outcome(&spec, path), ": created", "{path}");
    }
    for path in ["/file", "/home/file", "/usr/file"] {
        let refused = outcome(&spec, path);
        assert!(refused.contains("Read-only file system"), "{path}{refused}");
    }
    portal.stop(spec.session);
    portal.until_ended(spec.session);
    // Even if the root file system is writable, the session's account cannot change folders that belong to the user
    // root.
    spec.session = SessionId::random();
    spec.writable_root = true;
    portal.launch(&spec).unwrap();
    let refused = outcome(&spec, "/file");
    assert!(refused.contains("Permission denied"), "{refused}");
    portal.stop(spec.session);
    portal.until_ended(spec.session);
    portal.end();
}

pub(crate) fn is_killed_externally(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&["--application"]);
    portal.launch(&spec).unwrap();
    let pid = portal.until_running(spec.session).pid(spec.session);
    kill(pid);
    let (code, why) = portal.until_ended(spec.session);
    assert!(code.is_none_or(|code| code == 128 + 9), "{code:?}: {why}");
    wait("no remaining processes", || {
        processes(spec.session).is_empty()
    });
    portal.stop(spec.session);
    portal.end();
}

pub(crate) fn waits_until_there_is_room(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let specs = [spec(&[]), spec(&[]), spec(&[])];
    for spec in &specs {
        portal.launch(spec).unwrap();
    }
    let [first, second, third] = specs.each_ref().map(|spec| spec.session);
    portal.until_running(first);
    portal.until_running(second);
    let queued = portal.until(third, "is queued", |of| matches!(of, Phase::Queued { .. }));
    assert!(matches!(&queued.phase, Phase::Queued { why } if !why.is_empty()));
    assert_eq!(processes(third), [0; 0]);
    portal.end();

    let portal = Portal::start(engine);
    assert!(matches!(
        portal.of(third).unwrap().phase,
        Phase::Queued { .. }
    ));
    portal.stop(first);
    portal.until_running(third);
    for session in [second, third] {
        portal.stop(session);
        portal.until_ended(session);
    }
    portal.end();
}

pub(crate) fn prints_no_endpoint(engine: &mut dyn Engine) {
    if !engine.knows_output() {
        return;
    }
    let portal = Portal::start(engine);
    let spec = spec(&["--nonsense"]);
    portal.launch(&spec).unwrap();
    let (_, why) = portal.until_ended(spec.session);
    assert!(why.contains("printed no endpoint"), "{why}");
    wait("it has ended", || processes(spec.session).is_empty());
    portal.stop(spec.session);
    portal.end();
}

pub(crate) fn is_stopped_before_it_runs(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(&["--mute"]);
    portal.launch(&spec).unwrap();
    wait("its process", || processes(spec.session).len() == 1);
    assert_eq!(portal.of(spec.session).unwrap().phase, Phase::Starting);
    portal.stop(spec.session);
    portal.until_ended(spec.session);
    wait("it has ended", || processes(spec.session).is_empty());
    portal.end();
}

pub(crate) fn reaches_its_time_limit(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let mut spec = spec(&[]);
    spec.max_duration = Some(Duration::from_secs(1));
    portal.launch(&spec).unwrap();
    portal.until_ended(spec.session);
    wait("it has ended", || processes(spec.session).is_empty());
    portal.stop(spec.session);
    portal.end();
}

pub(crate) fn is_lost(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let spec = spec(engine.lost_words());
    portal.launch(&spec).unwrap();
    let pid = portal.until_running(spec.session).pid(spec.session);
    portal.end();
    if !engine.lose(spec.session, pid) {
        return;
    }

    let portal = Portal::start(engine);
    portal.until(spec.session, "is lost", |of| {
        matches!(of, Phase::Lost { .. })
    });
    portal.launch(&spec).unwrap();
    let lost = portal.of(spec.session).unwrap();
    assert!(
        matches!(lost.phase, Phase::Lost { .. }),
        "it is not restarted: {lost:?}"
    );
    portal.stop(spec.session);
    wait("it is forgotten", || portal.of(spec.session).is_none());
    // The session's server returns and gets the stop request.
    engine.restore();
    wait("no remaining processes", || {
        processes(spec.session).is_empty()
    });
    portal.end();
}

pub(crate) fn goes_on_without_its_engine(engine: &mut dyn Engine) {
    let portal = Portal::start(engine);
    let first = spec(&[]);
    portal.launch(&first).unwrap();
    let running = portal.until_running(first.session);
    let pid = running.pid(first.session);
    if engine.fail() {
        let refused = portal.launch(&spec(&[]));
        assert!(
            matches!(refused, Err(LaunchError::Unavailable(_))),
            "{refused:?}"
        );
        assert_eq!(running.pid(first.session), pid);
        engine.restore();
        wait("it is listed again", || {
            let listed = portal.runtime.block_on(portal.launcher.list());
            listed.is_ok_and(|all| all.iter().any(|of| of.session == first.session))
        });
        assert_eq!(running.pid(first.session), pid);
    }
    portal.stop(first.session);
    portal.until_ended(first.session);
    portal.end();
}
