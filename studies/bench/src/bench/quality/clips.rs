//! The test clips. Each is recorded once and does not change afterwards. Clips are stored outside the source tree.
//!
//! A recording captures each picture of an application on a virtual display of its own. The scene is recorded in real
//! time. The game is recorded in time steps of equal length, so its motion is smooth on slow machines, too. A clip is
//! identified by its SHA-256, which is stored next to it.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use aws_lc_rs::digest::{Context as Digest, SHA256};
use openuvr_media::capture::clip::{Clip, ClipWriter};
use openuvr_proto::units::Size;

use openuvr_clock as clock;
use openuvr_testbed::child::Child;
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::pair::{self, TemporaryDir};
use openuvr_testbed::picture_match::Shot;
use openuvr_testbed::screen::Screen;

/// The contents of a clip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::bench) enum Content {
    /// The built-in scene.
    Scene,
    /// A match of bots in OpenArena, from the viewpoint of one bot.
    OpenArena,
    /// A user's file.
    File(PathBuf),
}

impl Content {
    /// The content's name in figures.
    pub(super) fn name(&self) -> String {
        match self {
            Content::Scene => "scene".into(),
            Content::OpenArena => "openarena".into(),
            Content::File(path) => path
                .file_stem()
                .map_or("clip".into(), |stem| stem.to_string_lossy().into_owned()),
        }
    }
}

/// An available clip.
#[derive(Clone, Debug)]
pub(in crate::bench) struct StoredClip {
    pub(super) name: String,
    pub(in crate::bench) path: PathBuf,
    pub(super) size: Size,
    pub(super) frames: u32,
    pub(super) sha256: String,
}

impl fmt::Display for StoredClip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoredClip { name, size, .. } = self;
        writeln!(
            f,
            "{name}: {} frames of {size}, {}",
            self.frames,
            self.path.display()
        )?;
        write!(f, "  sha256 {}", self.sha256)
    }
}

/// Format of a new recording.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Format {
    pub(in crate::bench) size: Size,
    pub(in crate::bench) fps: u32,
    pub(in crate::bench) frames: u32,
}

/// Finds or records all clips, so that a missing file or program is reported before the first measurement.
pub(super) fn find_all(
    contents: &[Content],
    format: Format,
    stop: &AtomicBool,
) -> Result<Vec<StoredClip>> {
    let clips = contents.iter();
    clips.map(|content| find(content, format, stop)).collect()
}

/// Finds a clip or records it.
pub(in crate::bench) fn find(
    content: &Content,
    format: Format,
    stop: &AtomicBool,
) -> Result<StoredClip> {
    let path = match content {
        Content::File(path) => path.clone(),
        _ => {
            let Format { size, fps, frames } = format;
            let file = format!("{}-{size}-{fps}-{frames}.y4m", content.name());
            cache()?.join(file)
        }
    };
    if !path.exists() && !matches!(content, Content::File(_)) {
        record(content, format, &path, stop)?;
    }
    let clip = Clip::open(&path)?;
    let sha256 = sha256(&path)?;
    compare(&path, &sha256)?;
    Ok(StoredClip {
        name: content.name(),
        size: clip.size(),
        frames: clip.count(),
        sha256,
        path,
    })
}

/// The cache directory (XDG Base Directory Specification).
fn cache() -> Result<PathBuf> {
    let dir = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .context("no folder for clips: neither XDG_CACHE_HOME nor HOME is set")?
        .join("openuvr");
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("can't make the directory {}", dir.display()))?;
    Ok(dir)
}

fn sha256(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path)?;
    let (mut digest, mut bytes) = (Digest::new(&SHA256), vec![0; 1 << 20]);
    loop {
        match file.read(&mut bytes)? {
            0 => break,
            len => digest.update(&bytes[..len]),
        }
    }
    let sum = digest.finish();
    Ok(sum
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The checksum file of a clip, in the format of sha256sum(1).
fn sum_file(path: &Path) -> PathBuf {
    path.with_extension("y4m.sha256")
}

/// Returns an error if a clip has changed since it was recorded.
fn compare(path: &Path, sha256: &str) -> Result<()> {
    let Ok(text) = std::fs::read_to_string(sum_file(path)) else {
        return Ok(());
    };
    let known = text.split_whitespace().next().unwrap_or_default();
    ensure!(
        known == sha256,
        "the clip {} has changed since it was recorded: its SHA-256 is {sha256}, not {known}; delete it to \
         record another",
        path.display()
    );
    Ok(())
}

/// Maximum time until an application's next picture. A game takes many seconds to load.
const TIMEOUT: Duration = Duration::from_secs(90);

fn record(content: &Content, format: Format, path: &Path, stop: &AtomicBool) -> Result<()> {
    println!("recording {} to {}", content.name(), path.display());
    let home = TemporaryDir::new()?;
    let display = VirtualDisplay::start(format.size)?;
    let mut screen = Screen::open(display.name())?;
    screen.watch()?;
    let app = match content {
        Content::Scene => pair::scene(&pair::scene_words(
            display.name(),
            format.size,
            f64::from(format.fps),
        ))?,
        _ => open_arena(display.name(), format, home.path())?,
    };
    // The recording has a temporary name until it is complete.
    let part = path.with_extension("part");
    let mut recording = Recording {
        screen,
        app,
        stop,
        last: None,
    };
    if *content == Content::OpenArena {
        recording.wait_for(BEGIN, home.path())?;
    }
    let mut writer = ClipWriter::create(&part, format.size, format.fps)
        .with_context(|| format!("can't write {}", part.display()))?;
    for _ in 0..format.frames {
        let shot = recording.next()?;
        writer.add(&shot.pixels)?;
    }
    writer.finish()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let line = format!("{}  {name}\n", sha256(&part)?);
    std::fs::write(sum_file(path), line)?;
    std::fs::rename(&part, path)?;
    Ok(())
}

/// A recorded application.
struct Recording<'a> {
    screen: Screen,
    app: Child,
    stop: &'a AtomicBool,
    last: Option<Shot>,
}

impl Recording<'_> {
    /// The next picture that differs from the previous picture.
    fn next(&mut self) -> Result<Shot> {
        let until = clock::now() + TIMEOUT;
        loop {
            self.check(until)?;
            if !self.screen.changed(Duration::from_millis(50))? {
                continue;
            }
            let shot = Shot::take(&self.screen, self.screen.all())?;
            let same = |last: &Shot| last.pixels == shot.pixels;
            if shot.is_blank() || self.last.as_ref().is_some_and(same) {
                continue;
            }
            self.last = Some(shot.clone());
            return Ok(shot);
        }
    }

    /// Waits for `word` in the application's output.
    fn wait_for(&mut self, word: &str, home: &Path) -> Result<()> {
        let until = clock::now() + TIMEOUT;
        let log = || std::fs::read_to_string(home.join(GAME_LOG)).unwrap_or_default();
        while !log().contains(word) {
            self.check(until)?;
            clock::sleep_until(clock::now() + Duration::from_millis(20));
        }
        Ok(())
    }

    fn check(&mut self, until: openuvr_proto::time::Instant) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        self.app.check()?;
        let seconds = TIMEOUT.as_secs();
        ensure!(
            clock::now() < until,
            "no new picture from {} for {seconds} s{}",
            self.app.name(),
            self.app.last_words()
        );
        Ok(())
    }
}

/// The name of the game's log file in its home directory.
const GAME_LOG: &str = "said";

/// The recording starts when the game prints this message.
const BEGIN: &str = "openuvr: the clip begins";

/// Starts a match of four bots, without sound. A spectator follows one of them. Each picture advances the game's clock
/// by one step. Settings and scores stay in `home`.
fn open_arena(display: &str, format: Format, home: &Path) -> Result<Child> {
    const PROGRAM: &str = "/usr/games/openarena";
    ensure!(
        Path::new(PROGRAM).exists(),
        "the game clip is recorded from OpenArena, which is not installed: apt install openarena \
         openarena-data, or use --clip none, or --clip FILE.y4m"
    );
    let dir = home.join(".openarena/baseoa");
    std::fs::create_dir_all(&dir)?;
    // `wait` counts pictures. The bots need some seconds to join and to meet.
    let script = format!(
        "set fixedtime {}\n\
         addbot sarge 4\naddbot major 4\naddbot neko 4\naddbot grism 4\n\
         wait 150\nteam spectator\nwait 300\nfollownext\nwait 50\necho {BEGIN}\n",
        1000 / format.fps.max(1)
    );
    std::fs::write(dir.join("openuvr.cfg"), script)?;
    let Size { width, height } = format.size;
    let mut command = Command::new(PROGRAM);
    let settings = [
        ("r_mode", "-1".to_owned()),
        ("r_customwidth", width.to_string()),
        ("r_customheight", height.to_string()),
        ("r_fullscreen", "0".to_owned()),
        ("s_initsound", "0".to_owned()),
        ("in_mouse", "0".to_owned()),
        ("com_maxfps", "0".to_owned()),
        ("bot_enable", "1".to_owned()),
        ("cg_lagometer", "0".to_owned()),
    ];
    for (name, value) in &settings {
        command.args(["+set", name, value]);
    }
    command
        .args(["+devmap", "oa_dm1", "+exec", "openuvr.cfg"])
        .env("HOME", home)
        .env("DISPLAY", display)
        .stdout(Stdio::null());
    Child::start("game", command, Some(&home.join(GAME_LOG)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clip_that_has_changed_is_not_measured_with() {
        let dir = TemporaryDir::new().unwrap();
        let path = dir.path().join("a.y4m");
        std::fs::write(&path, "abc").unwrap();
        let sum = sha256(&path).unwrap();
        // The test vector of FIPS 180-2, appendix B.1.
        assert!(sum.starts_with("ba7816bf8f01cfea414140de5dae2223"), "{sum}");
        assert!(compare(&path, &sum).is_ok(), "no checksum yet");
        std::fs::write(sum_file(&path), format!("{sum}  a.y4m\n")).unwrap();
        assert!(compare(&path, &sum).is_ok());
        let error = compare(&path, "00").unwrap_err().to_string();
        assert!(error.contains("has changed since"), "{error}");
    }
}
