//! The volumes of a session's Pod. The root of the session's container is read-only, so the session can write only to
//! these volumes. The exception is an application whose entry in the catalogue requests a writable root.
//!
//! - `/tmp` has the session's own folder with the application's home and temporary files, the sockets of the display
//!   server and the sound server, and the runtime folder (`XDG_RUNTIME_DIR`). A runtime folder must belong to the user,
//!   but volumes belong to root. Therefore, the runtime folder cannot be a volume itself.
//! - The home folder of the image's account has settings of the sound server and caches of drivers.
//! - `/dev/shm` is in memory.
//! - The saves of the user and the application, if they are kept.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolumeClaimVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{KubernetesConfig, SavesVolume};
use crate::launch::LaunchSpec;

/// The home folder of the session program, as in the images of `./dev image`.
pub(super) const HOME: &str = "/home/openuvr";

/// The volumes, and the paths at which the container mounts them.
pub(super) fn of(config: &KubernetesConfig, spec: &LaunchSpec) -> (Vec<Volume>, Vec<VolumeMount>) {
    let mut all = vec![
        empty("tmp", "/tmp", None, config.scratch),
        empty("home", HOME, None, config.scratch),
        empty("shm", "/dev/shm", Some("Memory"), config.shared_memory),
    ];
    all.extend(saves(config, spec).map(|(volume, mount)| (claim(volume), mount)));
    all.into_iter().unzip()
}

/// An empty folder with a maximum size in bytes.
fn empty(name: &str, path: &str, medium: Option<&str>, size: u64) -> (Volume, VolumeMount) {
    let volume = Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: medium.map(str::to_owned),
            size_limit: Some(Quantity(size.to_string())),
        }),
        ..Volume::default()
    };
    let mount = VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    };
    (volume, mount)
}

/// Name of the saves volume in a Pod.
const SAVES: &str = "saves";

/// The saves volume, and the mount of the single folder that the session's arguments name (`--save=FOLDER`).
pub(super) fn saves<'a>(
    config: &'a KubernetesConfig,
    spec: &LaunchSpec,
) -> Option<(&'a SavesVolume, VolumeMount)> {
    let volume = config.saves.as_ref()?;
    let own = spec.words.iter().take_while(|word| *word != "--");
    let folder = own.filter_map(|word| word.strip_prefix("--save=")).next()?;
    let inside = Path::new(folder).strip_prefix(&volume.root).ok()?;
    let mount = VolumeMount {
        name: SAVES.to_owned(),
        mount_path: folder.to_owned(),
        sub_path: Some(inside.to_str()?.to_owned()),
        ..VolumeMount::default()
    };
    Some((volume, mount))
}

fn claim(saves: &SavesVolume) -> Volume {
    Volume {
        name: SAVES.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: saves.claim.clone(),
            read_only: None,
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pod;
    use super::*;

    /// The recipe of the session's image, and the settings that all images have in common.
    const RECIPE: &str = include_str!("../../../../../packaging/image/recipes/session");
    const BUILD: &str = include_str!("../../../../../packaging/image/build");

    fn names(config: &KubernetesConfig, words: &[&str]) -> Vec<String> {
        let volumes = of(config, &pod::tests::spec(words)).0;
        volumes.into_iter().map(|of| of.name).collect()
    }

    #[test]
    fn a_pod_mounts_only_its_users_saves() {
        let mut config = KubernetesConfig::new("image");
        let words = [
            "--save=/data/saves/ada/game",
            "--",
            "game",
            "--save=/data/saves/eve/game",
        ];
        let own = ["tmp", "home", "shm"];
        assert_eq!(names(&config, &words), own);
        config.saves = Some(SavesVolume {
            claim: "openuvr-saves".to_owned(),
            root: "/data/saves".into(),
            group: 1000,
        });
        let (volumes, mounts) = of(&config, &pod::tests::spec(&words));
        let volume = &volumes[3];
        let claim = volume.persistent_volume_claim.as_ref().unwrap();
        assert_eq!(claim.claim_name, "openuvr-saves");
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[3].name, volume.name);
        assert_eq!(mounts[3].mount_path, "/data/saves/ada/game");
        assert_eq!(mounts[3].sub_path.as_deref(), Some("ada/game"));
        // This application has no saves. The `--save` after `--` is an argument of the application itself.
        let without = ["--", "game", "--save=/data/saves/eve/game"];
        assert_eq!(names(&config, &without), own);
    }

    #[test]
    fn all_folders_that_the_image_declares_are_volumes() {
        let (_, mounts) = of(&KubernetesConfig::new("image"), &pod::tests::spec(&[]));
        let words = RECIPE.split_whitespace();
        let declared: Vec<&str> = words
            .filter_map(|word| word.strip_prefix("--config.volume="))
            .collect();
        assert_eq!(declared.len(), 2, "{declared:?}");
        for path in declared {
            assert!(mounts.iter().any(|of| of.mount_path == path), "{path}");
        }
        assert!(BUILD.contains(&format!("--config.env=HOME={HOME} ")));
    }

    #[test]
    fn empty_folders_have_the_configured_sizes() {
        let mut config = KubernetesConfig::new("image");
        let sizes = |config: &KubernetesConfig| {
            let volumes = of(config, &pod::tests::spec(&[])).0.into_iter();
            let folders = volumes.map(|of| of.empty_dir.unwrap());
            let size = |of: EmptyDirVolumeSource| (of.medium, of.size_limit.unwrap().0);
            folders.map(size).collect::<Vec<_>>()
        };
        let on = |medium: Option<&str>, size: &str| (medium.map(str::to_owned), size.to_owned());
        let disk = on(None, "4294967296");
        let memory = on(Some("Memory"), "268435456");
        assert_eq!(sizes(&config), [disk.clone(), disk, memory]);
        config.scratch = 1 << 20;
        config.shared_memory = 1 << 30;
        let disk = on(None, "1048576");
        let memory = on(Some("Memory"), "1073741824");
        assert_eq!(sizes(&config), [disk.clone(), disk, memory]);
    }
}
