//! The interaction profiles that bindings may be suggested for: those of OpenXR 1.0, section 6.4, all of
//! which a runtime has to take, whatever its player holds.

/// What a place of a device gives, or takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Component {
    Pose,
    Haptic,
    /// A button, an axis, or two.
    Value,
}

/// A device, or a pair of them.
pub(crate) struct Profile {
    /// Behind `/interaction_profiles/`.
    name: &'static str,
    /// The places of the person that have all of `both`.
    users: &'static [&'static str],
    both: &'static [&'static str],
    /// What only one of the two places has.
    left: &'static [&'static str],
    right: &'static [&'static str],
}

const HANDS: &[&str] = &["/user/hand/left", "/user/hand/right"];

/// The places of a person that have devices.
pub(crate) const USERS: [&str; 5] = [
    "/user/hand/left",
    "/user/hand/right",
    "/user/head",
    "/user/gamepad",
    "/user/treadmill",
];

const NONE: &[&str] = &[];

const PROFILES: [Profile; 9] = [
    Profile {
        name: "khr/simple_controller",
        users: HANDS,
        both: &[
            "input/select/click",
            "input/menu/click",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "google/daydream_controller",
        users: HANDS,
        both: &[
            "input/select/click",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "htc/vive_controller",
        users: HANDS,
        both: &[
            "input/system/click",
            "input/squeeze/click",
            "input/menu/click",
            "input/trigger/click",
            "input/trigger/value",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "htc/vive_pro",
        users: &["/user/head"],
        both: &[
            "input/system/click",
            "input/volume_up/click",
            "input/volume_down/click",
            "input/mute_mic/click",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "microsoft/motion_controller",
        users: HANDS,
        both: &[
            "input/menu/click",
            "input/squeeze/click",
            "input/trigger/value",
            "input/thumbstick/x",
            "input/thumbstick/y",
            "input/thumbstick/click",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "microsoft/xbox_controller",
        users: &["/user/gamepad"],
        both: &[
            "input/menu/click",
            "input/view/click",
            "input/a/click",
            "input/b/click",
            "input/x/click",
            "input/y/click",
            "input/dpad_down/click",
            "input/dpad_right/click",
            "input/dpad_up/click",
            "input/dpad_left/click",
            "input/shoulder_left/click",
            "input/shoulder_right/click",
            "input/thumbstick_left/click",
            "input/thumbstick_right/click",
            "input/trigger_left/value",
            "input/trigger_right/value",
            "input/thumbstick_left/x",
            "input/thumbstick_left/y",
            "input/thumbstick_right/x",
            "input/thumbstick_right/y",
            "output/haptic_left",
            "output/haptic_right",
            "output/haptic_left_trigger",
            "output/haptic_right_trigger",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "oculus/go_controller",
        users: HANDS,
        both: &[
            "input/system/click",
            "input/trigger/click",
            "input/back/click",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "oculus/touch_controller",
        users: HANDS,
        both: &[
            "input/squeeze/value",
            "input/trigger/value",
            "input/trigger/touch",
            "input/thumbstick/x",
            "input/thumbstick/y",
            "input/thumbstick/click",
            "input/thumbstick/touch",
            "input/thumbrest/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: &[
            "input/x/click",
            "input/x/touch",
            "input/y/click",
            "input/y/touch",
            "input/menu/click",
        ],
        right: &[
            "input/a/click",
            "input/a/touch",
            "input/b/click",
            "input/b/touch",
            "input/system/click",
        ],
    },
    Profile {
        name: "valve/index_controller",
        users: HANDS,
        both: &[
            "input/system/click",
            "input/system/touch",
            "input/a/click",
            "input/a/touch",
            "input/b/click",
            "input/b/touch",
            "input/squeeze/value",
            "input/squeeze/force",
            "input/trigger/click",
            "input/trigger/value",
            "input/trigger/touch",
            "input/thumbstick/x",
            "input/thumbstick/y",
            "input/thumbstick/click",
            "input/thumbstick/touch",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/force",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
];

impl Profile {
    /// The profile with this path.
    pub(crate) fn find(path: &str) -> Option<&'static Profile> {
        let name = path.strip_prefix("/interaction_profiles/")?;
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// What lies at a path of a person's, as `/user/hand/left/input/trigger`; its components may be left
    /// to the runtime.
    pub(crate) fn component(&self, path: &str) -> Option<Component> {
        let user = self.users.iter().find(|user| path.starts_with(**user))?;
        let rest = path[user.len()..].strip_prefix('/')?;
        let own = match *user {
            "/user/hand/left" => self.left,
            "/user/hand/right" => self.right,
            _ => NONE,
        };
        let mut all = self.both.iter().chain(own);
        let whole = all.find(|component| {
            let tail = component.strip_prefix(rest);
            tail.is_some_and(|tail| tail.is_empty() || tail.starts_with('/'))
        })?;
        // Of a place at least its name: `input` alone is none.
        let named = rest.split('/').count() >= 2;
        named.then(|| match whole {
            _ if whole.starts_with("output/") => Component::Haptic,
            _ if whole.ends_with("/pose") => Component::Pose,
            _ => Component::Value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_may_be_named_by_their_place() {
        let touch = Profile::find("/interaction_profiles/oculus/touch_controller").unwrap();
        let found = |path: &str| touch.component(path);
        let value = Some(Component::Value);
        assert_eq!(found("/user/hand/left/input/trigger/value"), value);
        assert_eq!(found("/user/hand/left/input/trigger"), value);
        assert_eq!(found("/user/hand/left/input/thumbstick"), value);
        assert_eq!(
            found("/user/hand/right/input/aim/pose"),
            Some(Component::Pose)
        );
        assert_eq!(found("/user/hand/right/input/aim"), Some(Component::Pose));
        assert_eq!(
            found("/user/hand/left/output/haptic"),
            Some(Component::Haptic)
        );
        assert_eq!(found("/user/hand/left/input/x/click"), value);
        for none in [
            "/user/hand/right/input/x/click",
            "/user/hand/left/input/trigg",
            "/user/hand/left/input",
            "/user/hand/left",
            "/user/hand/leftover/input/trigger",
            "/user/head/input/system/click",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn profiles_are_found_by_their_path() {
        for profile in &PROFILES {
            let path = format!("/interaction_profiles/{}", profile.name);
            assert_eq!(Profile::find(&path).map(|p| p.name), Some(profile.name));
        }
        assert!(Profile::find("/interaction_profiles/khr").is_none());
        assert!(Profile::find("khr/simple_controller").is_none());
    }
}
