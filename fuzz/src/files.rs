//! Files from other programs of the same user: settings of the OpenXR runtime, key and trust files, the gamepad
//! database, and a game's requests to a gamepad.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::printable::is_printable;
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_runtime::launch_protocol::LaunchSettings;
use openuvr_runtime::trust_store::{DeviceStore, HostStore, MAX_WINDOW};

/// A list of applications, and the files of Steam and Lutris from which such a list is made. A parsed list is the same
/// after it is written and parsed again.
pub fn application_lists(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(list) = openuvr_applications::parse(text) {
        let written = openuvr_applications::to_toml(&list);
        assert_eq!(openuvr_applications::parse(&written), Ok(list));
    }
    for path in openuvr_applications::steam_libraries(text) {
        assert!(path.is_absolute());
    }
    let steam = openuvr_applications::steam_game(text, &["steam"]);
    let lutris = openuvr_applications::lutris_game("game-1", text);
    for game in steam.into_iter().chain(lutris) {
        assert_eq!(game.command.len(), 2);
    }
}

/// The settings file of the OpenXR runtime. Parsed settings are the same after they are written and parsed again.
pub fn xr_settings(bytes: &[u8]) {
    if let Ok(settings) = LaunchSettings::from_toml(bytes)
        && let Ok(written) = settings.to_toml()
    {
        let again = LaunchSettings::from_toml(written.as_bytes());
        let again = again.expect("written settings are valid");
        assert_eq!(again.to_toml().as_ref(), Ok(&written));
    }
}

/// Arbitrary bytes as a file of devices, of hosts, of a pairing request, or of a key. An invalid file is rejected and
/// not changed; an update preserves the content of a valid file.
pub fn trust_files(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let folder = folder();
    match which % 4 {
        0 => devices(folder, bytes),
        1 => hosts(folder, bytes),
        2 => pairing(folder, bytes),
        _ => key(folder, bytes),
    }
}

fn devices(folder: &Path, bytes: &[u8]) {
    let file = folder.join("devices.toml");
    put(&file, bytes);
    let Ok(mut store) = DeviceStore::open(folder) else {
        return;
    };
    let before = store.devices().to_vec();
    for device in &before {
        let title = device.title();
        assert!(title.chars().all(is_printable), "{title:?}");
    }
    let new = PublicKey([0x5a; 32]);
    let name = DeviceName::new("fuzz");
    store.pair(new, &name, 7).expect("it was read");
    let again = DeviceStore::open(folder).expect("it was written");
    assert_eq!(again.devices(), store.devices());
    for device in before.iter().filter(|device| device.key != new) {
        assert!(again.devices().contains(device));
    }
    assert!(again.devices().iter().any(|device| device.key == new));
}

fn hosts(folder: &Path, bytes: &[u8]) {
    put(&folder.join("hosts.toml"), bytes);
    let Ok(mut store) = HostStore::open(folder) else {
        return;
    };
    let key = PublicKey([0x5a; 32]);
    store.remember("fuzz:4710", key).expect("it was read");
    let again = HostStore::open(folder).expect("it was written");
    assert_eq!(again.key("fuzz:4710"), Some(key));
}

/// A file with a request for a pairing window. If a request is reported, its PIN and its duration are within their
/// limits.
fn pairing(folder: &Path, bytes: &[u8]) {
    let mut requests = {
        let _ = fs::remove_file(folder.join("pairing.toml"));
        put(&folder.join("devices.toml"), b"device = []\n");
        let store = DeviceStore::open(folder).expect("an empty list");
        store.pairing_requests()
    };
    put(&folder.join("pairing.toml"), bytes);
    if let Ok(Some(wanted)) = requests.poll(1000) {
        assert!((4..=12).contains(&wanted.pin.to_string().len()));
        assert!(wanted.span <= MAX_WINDOW);
        requests.opened(&wanted.id).expect("it was read");
    }
}

fn key(folder: &Path, bytes: &[u8]) {
    let file = folder.join("host.key");
    put(&file, bytes);
    if let Ok(identity) = load_or_create(folder, KeyOwner::Host) {
        let again = load_or_create(folder, KeyOwner::Host).expect("the key was read before");
        assert!(again.public() == identity.public());
    }
    // The content of the key file is unchanged.
    assert_eq!(fs::read(&file).expect("there"), bytes);
}

/// Writes a file that only its owner can access, because the stores reject other files.
fn put(file: &Path, bytes: &[u8]) {
    fs::write(file, bytes).expect("written");
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("ours");
}

/// A private folder for this process, in memory if possible.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let folder = parent.join(format!("openuvr-fuzz-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.expect("a private folder");
        folder
    })
}

/// Arbitrary text as a gamepad database. The number of reported errors is limited.
pub fn pad_database(bytes: &[u8]) {
    use openuvr_media::input_source::pads::mapping::Database;
    let (mut database, mut complaints) = (Database::default(), Vec::new());
    let text = String::from_utf8_lossy(bytes);
    database.add(&text, "x", &mut complaints);
    assert!(complaints.len() <= 6);
    assert!(database.len() <= text.lines().count());
}

/// Requests of several programs to a gamepad. Each request follows a byte that selects the program and a byte for the
/// elapsed time.
pub fn pad_requests(bytes: &[u8]) {
    use openuvr_media::pad::force_feedback::ForceFeedback;
    use openuvr_media::pad::requests::{LENGTH, Request};
    use openuvr_proto::time::Instant;
    use std::time::Duration;
    let (mut forces, mut now) = (ForceFeedback::default(), Instant(0));
    let (asked, _) = bytes.as_chunks::<{ LENGTH + 2 }>();
    for [from, passed, request @ ..] in asked {
        now = now + Duration::from_millis(u64::from(*passed));
        match Request::from_bytes(request) {
            Some(request) => forces.take(now, (*from % 4).into(), request),
            None => forces.left((*from % 4).into()),
        }
        let _ = forces.rumble(now);
        assert!(forces.next_change(now).is_none_or(|at| at > now));
    }
}

/// A portal link from an untrusted page. A parsed link is the same after it is written and parsed again.
pub fn portal_link(bytes: &[u8]) {
    use openuvr_runtime::client::link::PortalLink;
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(link) = text.parse::<PortalLink>() {
        assert_eq!(link.to_string().parse(), Ok(link));
    }
}
