//! The interaction profiles of OpenXR (section 6.4) and their components.

/// An interaction profile.
pub(crate) struct Profile {
    /// The path without `/interaction_profiles/`.
    pub(super) name: &'static str,
    /// The top level user paths. Each of them has all components in `both`.
    pub(super) user_paths: &'static [&'static str],
    pub(super) both: &'static [&'static str],
    /// Components that only the left hand has. `right` contains those of the right hand.
    pub(super) left: &'static [&'static str],
    pub(super) right: &'static [&'static str],
}

/// A table of profiles: name, top level user paths, components.
macro_rules! profiles {
    ($(
        $name:literal $($user:literal)+
        both: [$($both:literal)+],
        $(left: [$($left:literal)+], right: [$($right:literal)+],)?
    )*) => {
        &[$(Profile {
            name: $name,
            user_paths: &[$($user),+],
            both: &[$($both),+],
            left: &[$($($left),+)?],
            right: &[$($($right),+)?],
        }),*]
    };
}

/// The profiles of OpenXR 1.0.
pub(super) const PROFILES_1_0: &[Profile] = profiles! {
    "khr/simple_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/select/click" "input/menu/click" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
    "google/daydream_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/select/click" "input/trackpad/x" "input/trackpad/y" "input/trackpad/click"
            "input/trackpad/touch" "input/grip/pose" "input/aim/pose"
        ],
    "htc/vive_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/system/click" "input/squeeze/click" "input/menu/click" "input/trigger/click"
            "input/trigger/value" "input/trackpad/x" "input/trackpad/y" "input/trackpad/click"
            "input/trackpad/touch" "input/grip/pose" "input/aim/pose" "output/haptic"
        ],
    "htc/vive_pro" "/user/head"
        both: [
            "input/system/click" "input/volume_up/click" "input/volume_down/click"
            "input/mute_mic/click"
        ],
    "microsoft/motion_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/menu/click" "input/squeeze/click" "input/trigger/value" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/trackpad/x" "input/trackpad/y"
            "input/trackpad/click" "input/trackpad/touch" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
    "microsoft/xbox_controller" "/user/gamepad"
        both: [
            "input/menu/click" "input/view/click" "input/a/click" "input/b/click" "input/x/click"
            "input/y/click" "input/dpad_down/click" "input/dpad_right/click" "input/dpad_up/click"
            "input/dpad_left/click" "input/shoulder_left/click" "input/shoulder_right/click"
            "input/thumbstick_left/click" "input/thumbstick_right/click"
            "input/trigger_left/value" "input/trigger_right/value" "input/thumbstick_left/x"
            "input/thumbstick_left/y" "input/thumbstick_right/x" "input/thumbstick_right/y"
            "output/haptic_left" "output/haptic_right" "output/haptic_left_trigger"
            "output/haptic_right_trigger"
        ],
    "oculus/go_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/system/click" "input/trigger/click" "input/back/click" "input/trackpad/x"
            "input/trackpad/y" "input/trackpad/click" "input/trackpad/touch" "input/grip/pose"
            "input/aim/pose"
        ],
    "oculus/touch_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/squeeze/value" "input/trigger/value" "input/trigger/touch" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/thumbstick/touch"
            "input/thumbrest/touch" "input/grip/pose" "input/aim/pose" "output/haptic"
        ],
        left: [
            "input/x/click" "input/x/touch" "input/y/click" "input/y/touch" "input/menu/click"
        ],
        right: [
            "input/a/click" "input/a/touch" "input/b/click" "input/b/touch" "input/system/click"
        ],
    "valve/index_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/system/click" "input/system/touch" "input/a/click" "input/a/touch"
            "input/b/click" "input/b/touch" "input/squeeze/value" "input/squeeze/force"
            "input/trigger/click" "input/trigger/value" "input/trigger/touch" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/thumbstick/touch"
            "input/trackpad/x" "input/trackpad/y" "input/trackpad/force" "input/trackpad/touch"
            "input/grip/pose" "input/aim/pose" "output/haptic"
        ],
};

/// The profiles that OpenXR 1.1 added. `profiles.rs` adds `input/grip_surface/pose` for each hand.
pub(super) const PROFILES_1_1: &[Profile] = profiles! {
    "bytedance/pico4_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/system/click" "input/squeeze/click" "input/squeeze/value" "input/trigger/click"
            "input/trigger/touch" "input/trigger/value" "input/thumbstick/x" "input/thumbstick/y"
            "input/thumbstick/click" "input/thumbstick/touch" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
        left: [
            "input/x/click" "input/x/touch" "input/y/click" "input/menu/click" "input/y/touch"
        ],
        right: ["input/a/click" "input/a/touch" "input/b/click" "input/b/touch"],
    "bytedance/pico_g3_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/trigger/click" "input/trigger/value" "input/menu/click" "input/grip/pose"
            "input/aim/pose" "input/thumbstick" "input/thumbstick/click"
        ],
    "bytedance/pico_neo3_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/system/click" "input/menu/click" "input/squeeze/click" "input/squeeze/value"
            "input/trigger/click" "input/trigger/touch" "input/trigger/value" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/thumbstick/touch"
            "input/grip/pose" "input/aim/pose" "output/haptic"
        ],
        left: ["input/x/click" "input/x/touch" "input/y/click" "input/y/touch"],
        right: ["input/a/click" "input/a/touch" "input/b/click" "input/b/touch"],
    "hp/mixed_reality_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/menu/click" "input/squeeze/value" "input/trigger/value" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
        left: ["input/x/click" "input/y/click"],
        right: ["input/a/click" "input/b/click"],
    "htc/vive_cosmos_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/shoulder/click" "input/squeeze/click" "input/trigger/click"
            "input/trigger/value" "input/thumbstick/x" "input/thumbstick/y"
            "input/thumbstick/click" "input/thumbstick/touch" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
        left: ["input/x/click" "input/y/click" "input/menu/click"],
        right: ["input/a/click" "input/b/click" "input/system/click"],
    "htc/vive_focus3_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/squeeze/click" "input/squeeze/touch" "input/squeeze/value"
            "input/trigger/click" "input/trigger/touch" "input/trigger/value" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/thumbstick/touch"
            "input/thumbrest/touch" "input/grip/pose" "input/aim/pose" "output/haptic"
        ],
        left: ["input/x/click" "input/y/click" "input/menu/click"],
        right: ["input/a/click" "input/b/click" "input/system/click"],
    "meta/touch_controller_quest_1_rift_s" "/user/hand/left" "/user/hand/right"
        both: [
            "input/squeeze/value" "input/trigger/value" "input/trigger/touch"
            "input/trigger/proximity" "input/thumb_resting_surfaces/proximity"
            "input/thumbstick/x" "input/thumbstick/y" "input/thumbstick/click"
            "input/thumbstick/touch" "input/grip/pose" "input/aim/pose" "output/haptic"
        ],
        left: [
            "input/x/click" "input/x/touch" "input/y/click" "input/y/touch" "input/menu/click"
        ],
        right: [
            "input/a/click" "input/a/touch" "input/b/click" "input/b/touch" "input/system/click"
        ],
    "meta/touch_controller_quest_2" "/user/hand/left" "/user/hand/right"
        both: [
            "input/squeeze/value" "input/trigger/value" "input/trigger/touch"
            "input/trigger/proximity" "input/thumb_resting_surfaces/proximity"
            "input/thumbstick/x" "input/thumbstick/y" "input/thumbstick/click"
            "input/thumbstick/touch" "input/thumbrest/touch" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
        left: [
            "input/x/click" "input/x/touch" "input/y/click" "input/y/touch" "input/menu/click"
        ],
        right: [
            "input/a/click" "input/a/touch" "input/b/click" "input/b/touch" "input/system/click"
        ],
    "meta/touch_controller_rift_cv1" "/user/hand/left" "/user/hand/right"
        both: [
            "input/squeeze/value" "input/trigger/value" "input/trigger/touch"
            "input/trigger/proximity" "input/thumb_resting_surfaces/proximity"
            "input/thumbstick/x" "input/thumbstick/y" "input/thumbstick/click"
            "input/thumbstick/touch" "input/thumbrest/touch" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
        left: [
            "input/x/click" "input/x/touch" "input/y/click" "input/y/touch" "input/menu/click"
        ],
        right: [
            "input/a/click" "input/a/touch" "input/b/click" "input/b/touch" "input/system/click"
        ],
    "meta/touch_plus_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/squeeze/value" "input/trigger/value" "input/trigger/touch" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/thumbstick/touch"
            "input/thumbrest/touch" "input/grip/pose" "input/aim/pose" "output/haptic"
            "input/thumb_resting_surfaces/proximity" "input/trigger/proximity"
            "input/trigger_curl/value" "input/trigger_slide/value" "input/trigger/force"
        ],
        left: [
            "input/x/click" "input/x/touch" "input/y/click" "input/y/touch" "input/menu/click"
        ],
        right: [
            "input/a/click" "input/a/touch" "input/b/click" "input/b/touch" "input/system/click"
        ],
    "meta/touch_pro_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/squeeze/value" "input/trigger/value" "input/trigger/touch" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/thumbstick/touch"
            "input/thumbrest/touch" "input/grip/pose" "input/aim/pose" "output/haptic"
            "input/thumbrest/force" "input/stylus/force" "input/thumb_resting_surfaces/proximity"
            "input/trigger_curl/value" "input/trigger_slide/value" "input/trigger/proximity"
            "output/haptic_trigger" "output/haptic_thumb"
        ],
        left: [
            "input/x/click" "input/x/touch" "input/y/click" "input/y/touch" "input/menu/click"
        ],
        right: [
            "input/a/click" "input/a/touch" "input/b/click" "input/b/touch" "input/system/click"
        ],
    "ml/ml2_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/menu/click" "input/home/click" "input/trigger/click" "input/trigger/value"
            "input/trackpad/x" "input/trackpad/y" "input/trackpad/click" "input/trackpad/force"
            "input/trackpad/touch" "input/grip/pose" "input/aim/pose" "input/shoulder/click"
            "output/haptic"
        ],
    "samsung/odyssey_controller" "/user/hand/left" "/user/hand/right"
        both: [
            "input/menu/click" "input/squeeze/click" "input/trigger/value" "input/thumbstick/x"
            "input/thumbstick/y" "input/thumbstick/click" "input/trackpad/x" "input/trackpad/y"
            "input/trackpad/click" "input/trackpad/touch" "input/grip/pose" "input/aim/pose"
            "output/haptic"
        ],
};
