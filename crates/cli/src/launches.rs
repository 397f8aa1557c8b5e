//! The applications of `--applications`. Moonlight clients start and end them, one at a time, on the virtual display.
//!
//! The connection threads send requests. The main thread executes them, because an application ends with the thread
//! that has started it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use openuvr_proto::host::WantedDisplay;
use openuvr_proto::time::Instant;
use openuvr_runtime::lock::lock;
use openuvr_session::{ApplicationDisplay, RunningApplication, VirtualAudio};

/// The maximum number of waiting requests (guess: one from each client of a household).
const WAITING: usize = 16;

/// How long a client waits for an answer: longer than an application may take to end.
#[cfg(feature = "moonlight")]
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

/// An application of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    /// The name that is shown to users.
    pub(crate) name: String,
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// The path of the application's icon, a PNG file.
    pub(crate) icon: Option<PathBuf>,
}

/// Reads the list in this file.
///
/// # Errors
/// Returns an error with a one-line message if the list cannot be used.
#[cfg(feature = "moonlight")]
fn read(path: &Path) -> Result<Vec<Listed>> {
    let list = openuvr_applications::read(path)?.into_iter();
    let listed = list.map(|application| Listed {
        name: application.name,
        words: application
            .command
            .into_iter()
            .map(OsString::from)
            .collect(),
        icon: application.icon,
    });
    Ok(listed.collect())
}

#[cfg(not(feature = "moonlight"))]
fn read(_: &Path) -> Result<Vec<Listed>> {
    anyhow::bail!(
        "--applications: this program was built without support for Moonlight; build it with ./dev build"
    )
}

/// Why an application was not started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StartRefused {
    /// The application at this position of the list is running.
    Busy(usize),
    /// The start failed for this reason, stated in one line.
    Failed(String),
}

/// A request of a client.
#[cfg_attr(
    not(feature = "moonlight"),
    expect(dead_code, reason = "only Moonlight clients send requests")
)]
enum Request {
    Start {
        place: usize,
        wanted: WantedDisplay,
        answer: SyncSender<Result<(), StartRefused>>,
    },
    Quit {
        answer: SyncSender<()>,
    },
}

/// The handle with which connections of Moonlight clients send requests. All clones share the same state.
#[derive(Clone)]
#[cfg_attr(
    not(feature = "moonlight"),
    expect(dead_code, reason = "only Moonlight clients send requests")
)]
pub(crate) struct LaunchDesk {
    list: Arc<Vec<Listed>>,
    requests: SyncSender<Request>,
    running: Arc<Mutex<Option<usize>>>,
}

#[cfg(feature = "moonlight")]
impl LaunchDesk {
    /// The applications.
    pub(crate) fn list(&self) -> &[Listed] {
        &self.list
    }

    /// The position of the running application in the list.
    pub(crate) fn running(&self) -> Option<usize> {
        *lock(&self.running)
    }

    /// Requests the start of the application at this position of the list, and waits up to [`ANSWER_TIMEOUT`] for the
    /// main thread. The display gets the mode `wanted` unless a player has requested one.
    ///
    /// # Errors
    /// [`StartRefused`] if the application was not started, or if the main thread has not answered in time. After a
    /// timeout, the application may still start.
    pub(crate) fn start(&self, place: usize, wanted: WantedDisplay) -> Result<(), StartRefused> {
        let late = || StartRefused::Failed("the host is busy: try again".to_owned());
        let (answer, answered) = sync_channel(1);
        let request = Request::Start {
            place,
            wanted,
            answer,
        };
        self.requests.try_send(request).map_err(|_| late())?;
        let answered = answered.recv_timeout(ANSWER_TIMEOUT);
        answered.unwrap_or_else(|_| Err(late()))
    }

    /// Requests the end of the running application, and waits up to [`ANSWER_TIMEOUT`] for the main thread. If too many
    /// requests wait, the request is dropped.
    pub(crate) fn quit(&self) {
        let (answer, answered) = sync_channel(1);
        if self.requests.try_send(Request::Quit { answer }).is_ok() {
            // A timeout is ignored, because the main thread still ends the application.
            let _ = answered.recv_timeout(ANSWER_TIMEOUT);
        }
    }
}

/// Executes the requests, in the main thread.
pub(crate) struct Launches {
    running: Option<RunningApplication>,
    requests: Receiver<Request>,
    desk: LaunchDesk,
}

/// The environment in which an application is started.
pub(crate) struct Stage<'a> {
    pub(crate) display: &'a dyn ApplicationDisplay,
    pub(crate) sound: &'a VirtualAudio,
    /// Sets the display to the wanted mode or, with `None`, to its initial mode.
    pub(crate) fit: &'a mut dyn FnMut(Option<WantedDisplay>),
}

impl Launches {
    /// Opens the list of applications in this file. No application is running yet.
    ///
    /// # Errors
    /// Returns an error with a one-line message if the list cannot be used.
    pub(crate) fn open(path: &Path) -> Result<Launches> {
        let list = Arc::new(read(path)?);
        let (sender, requests) = sync_channel(WAITING);
        Ok(Launches {
            running: None,
            requests,
            desk: LaunchDesk {
                list,
                requests: sender,
                running: Arc::default(),
            },
        })
    }

    /// The number of applications.
    pub(crate) fn len(&self) -> usize {
        self.desk.list.len()
    }

    /// A handle for the connections of clients.
    pub(crate) fn desk(&self) -> LaunchDesk {
        self.desk.clone()
    }

    /// Executes the requests of clients, and detects the application's end.
    pub(crate) fn turn(&mut self, now: Instant, stage: &mut Stage<'_>) {
        for _ in 0..WAITING {
            let Ok(request) = self.requests.try_recv() else {
                break;
            };
            // The requesting client may no longer wait, so a failure to send the answer is ignored.
            match request {
                Request::Start {
                    place,
                    wanted,
                    answer,
                } => {
                    let _ = answer.try_send(self.start(place, wanted, stage));
                }
                Request::Quit { answer } => {
                    self.quit(stage);
                    let _ = answer.try_send(());
                }
            }
        }
        if let Some(running) = self.running.take_if(|running| running.is_over(now)) {
            eprintln!("openuvr host: {} has ended", running.name());
            drop(running);
            self.ended(stage);
        }
    }

    fn start(
        &mut self,
        place: usize,
        wanted: WantedDisplay,
        stage: &mut Stage<'_>,
    ) -> Result<(), StartRefused> {
        let running = *lock(&self.desk.running);
        match running {
            Some(running) if running == place => return Ok(()),
            Some(running) => return Err(StartRefused::Busy(running)),
            None => {}
        }
        let listed = self.desk.list.get(place);
        let unknown = || StartRefused::Failed("the application is not in the list".to_owned());
        let listed = listed.ok_or_else(unknown)?;
        // The display gets its mode first, because many applications choose their size when they start.
        (stage.fit)(Some(wanted));
        match RunningApplication::start(&listed.words, stage.display, stage.sound) {
            Ok(running) => {
                eprintln!(
                    "openuvr host: {} has started; its client requested a display of {}",
                    listed.name, wanted.size
                );
                self.running = Some(running);
                *lock(&self.desk.running) = Some(place);
                Ok(())
            }
            Err(why) => {
                (stage.fit)(None);
                Err(StartRefused::Failed(format!("{why:#}")))
            }
        }
    }

    fn quit(&mut self, stage: &mut Stage<'_>) {
        if let Some(running) = self.running.take() {
            eprintln!("openuvr host: {} was quit", running.name());
            // Dropping waits until the application has ended.
            drop(running);
            self.ended(stage);
        }
    }

    fn ended(&self, stage: &mut Stage<'_>) {
        *lock(&self.desk.running) = None;
        (stage.fit)(None);
    }
}
