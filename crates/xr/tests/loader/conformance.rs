//! Requirements of the Khronos conformance suite that are easily violated. The suite itself runs separately (`./dev
//! conformance`); these tests run with all other tests.

use std::ffi::CStr;
use std::ptr::null;

use openxr_sys as xr;

use crate::rig::{Application, alone, field};

const EXTENSIONS: &[&[u8]] = &[
    xr::MND_HEADLESS_EXTENSION_NAME,
    xr::KHR_LOCATE_SPACES_EXTENSION_NAME,
    xr::KHR_VISIBILITY_MASK_EXTENSION_NAME,
    xr::FB_DISPLAY_REFRESH_RATE_EXTENSION_NAME,
];

const STEREO: xr::ViewConfigurationType = xr::ViewConfigurationType::PRIMARY_STEREO;
const MONO: xr::ViewConfigurationType = xr::ViewConfigurationType::PRIMARY_MONO;

#[test]
fn unterminated_names_are_invalid() {
    alone("conformance::unterminated_names_are_invalid", || {
        let Some(mut app) = Application::open(EXTENSIONS) else {
            return;
        };
        // The loader allows only one instance at a time.
        done!(app, DestroyInstance(app.instance));
        app.instance = xr::Instance::default();
        for long in [true, false] {
            let full = [c_letter(); xr::MAX_APPLICATION_NAME_SIZE];
            let info = xr::InstanceCreateInfo {
                ty: xr::InstanceCreateInfo::TYPE,
                next: null(),
                create_flags: xr::InstanceCreateFlags::EMPTY,
                application_info: xr::ApplicationInfo {
                    application_name: if long { full } else { field("test") },
                    application_version: 1,
                    engine_name: if long { field("") } else { full },
                    engine_version: 0,
                    api_version: xr::Version::new(1, 0, 0),
                },
                enabled_api_layer_count: 0,
                enabled_api_layer_names: null(),
                enabled_extension_count: 0,
                enabled_extension_names: null(),
            };
            let mut instance = xr::Instance::default();
            let made = call!(app, CreateInstance(&info, &mut instance));
            assert_eq!(made, xr::Result::ERROR_NAME_INVALID, "{long}");
        }
    });
}

fn c_letter() -> std::ffi::c_char {
    std::ffi::c_char::from_ne_bytes(*b"a")
}

#[test]
fn unknown_form_factors_are_unsupported() {
    let name = "conformance::unknown_form_factors_are_unsupported";
    alone(name, || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        for factor in [
            xr::FormFactor::HANDHELD_DISPLAY,
            xr::FormFactor::from_raw(i32::MAX),
        ] {
            let info = xr::SystemGetInfo {
                ty: xr::SystemGetInfo::TYPE,
                next: null(),
                form_factor: factor,
            };
            let mut system = xr::SystemId::NULL;
            let got = call!(app, GetSystem(app.instance, &info, &mut system));
            assert_eq!(got, xr::Result::ERROR_FORM_FACTOR_UNSUPPORTED);
        }
    });
}

#[test]
fn all_view_configurations_can_be_located() {
    let name = "conformance::all_view_configurations_can_be_located";
    alone(name, || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        // A headless session may omit the view configuration, but an unknown one is an error.
        for (views, wanted) in [
            (4711, xr::Result::ERROR_VIEW_CONFIGURATION_TYPE_UNSUPPORTED),
            (0, xr::Result::SUCCESS),
        ] {
            let info = xr::SessionBeginInfo {
                ty: xr::SessionBeginInfo::TYPE,
                next: null(),
                primary_view_configuration_type: xr::ViewConfigurationType::from_raw(views),
            };
            assert_eq!(call!(app, BeginSession(session, &info)), wanted, "{views}");
        }
        let (display, _) = app.frame(session);
        let space = app.space(session, xr::ReferenceSpaceType::LOCAL);
        for (configuration, count) in [(STEREO, 2), (MONO, 1)] {
            let info = xr::ViewLocateInfo {
                ty: xr::ViewLocateInfo::TYPE,
                next: null(),
                view_configuration_type: configuration,
                display_time: display,
                space,
            };
            // SAFETY: zero is valid for all fields.
            let (mut state, mut views): (xr::ViewState, [xr::View; 2]) =
                unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
            state.ty = xr::ViewState::TYPE;
            views.iter_mut().for_each(|view| view.ty = xr::View::TYPE);
            let mut found = 0;
            let out = views.as_mut_ptr();
            done!(
                app,
                LocateViews(session, &info, &mut state, 2, &mut found, out)
            );
            assert_eq!(found, count);
            assert!(views[0].fov.angle_left < views[0].fov.angle_right);
        }
    });
}

#[test]
fn many_spaces_are_located_with_one_call() {
    alone("conformance::many_spaces_are_located_with_one_call", || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        let (time, _) = app.frame(session);
        let local = app.space(session, xr::ReferenceSpaceType::LOCAL);
        let stage = app.space(session, xr::ReferenceSpaceType::STAGE);
        let spaces = [local, stage];
        let info = xr::SpacesLocateInfo {
            ty: xr::SpacesLocateInfo::TYPE,
            next: null(),
            base_space: local,
            time,
            space_count: 2,
            spaces: spaces.as_ptr(),
        };
        // SAFETY: zero is valid for all fields.
        let mut found: [xr::SpaceLocationData; 2] = unsafe { std::mem::zeroed() };
        let mut locations = xr::SpaceLocations {
            ty: xr::SpaceLocations::TYPE,
            next: std::ptr::null_mut(),
            location_count: 2,
            locations: found.as_mut_ptr(),
        };
        done!(app, LocateSpacesKHR(session, &info, &mut locations));
        let valid = xr::SpaceLocationFlags::POSITION_VALID;
        assert!(found.iter().all(|one| one.location_flags.contains(valid)));
        assert_eq!(found[0].pose.position.y, 0.0);
        assert!(found[1].pose.position.y < -1.0, "the floor");
        locations.location_count = 1;
        let wrong = call!(app, LocateSpacesKHR(session, &info, &mut locations));
        assert_eq!(wrong, xr::Result::ERROR_VALIDATION_FAILURE);
    });
}

#[test]
fn the_visibility_mask_is_empty() {
    alone("conformance::the_visibility_mask_is_empty", || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        let kind = xr::VisibilityMaskTypeKHR::HIDDEN_TRIANGLE_MESH;
        let mut mask = xr::VisibilityMaskKHR {
            ty: xr::VisibilityMaskKHR::TYPE,
            next: std::ptr::null_mut(),
            vertex_capacity_input: 0,
            vertex_count_output: 7,
            vertices: std::ptr::null_mut(),
            index_capacity_input: 0,
            index_count_output: 7,
            indices: std::ptr::null_mut(),
        };
        done!(
            app,
            GetVisibilityMaskKHR(session, STEREO, 1, kind, &mut mask)
        );
        assert_eq!((mask.vertex_count_output, mask.index_count_output), (0, 0));
        let beyond = call!(app, GetVisibilityMaskKHR(session, MONO, 1, kind, &mut mask));
        assert_eq!(beyond, xr::Result::ERROR_VALIDATION_FAILURE);
    });
}

#[test]
fn the_display_has_one_refresh_rate() {
    alone("conformance::the_display_has_one_refresh_rate", || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        let (mut count, mut rates, mut rate) = (0, [0.0; 4], 0.0);
        let out = rates.as_mut_ptr();
        done!(
            app,
            EnumerateDisplayRefreshRatesFB(session, 4, &mut count, out)
        );
        done!(app, GetDisplayRefreshRateFB(session, &mut rate));
        assert!(count == 1 && rates[0] == rate && rate > 1.0, "{rate}");
        for (wanted, result) in [
            (0.0, xr::Result::SUCCESS),
            (rate, xr::Result::SUCCESS),
            (
                rate * 2.0,
                xr::Result::ERROR_DISPLAY_REFRESH_RATE_UNSUPPORTED_FB,
            ),
        ] {
            assert_eq!(
                call!(app, RequestDisplayRefreshRateFB(session, wanted)),
                result
            );
        }
    });
}

#[test]
fn layers_of_a_headless_session_are_ignored() {
    let name = "conformance::layers_of_a_headless_session_are_ignored";
    alone(name, || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        let space = app.space(session, xr::ReferenceSpaceType::LOCAL);
        let layer = xr::CompositionLayerProjection {
            ty: xr::CompositionLayerProjection::TYPE,
            next: null(),
            layer_flags: xr::CompositionLayerFlags::EMPTY,
            space,
            view_count: 0,
            views: null(),
        };
        for _ in 0..2 {
            let (display, drawn) = app.wait_frame(session).unwrap();
            assert!(!drawn, "shouldRender of a headless session");
            assert_eq!(app.begin_frame(session), xr::Result::SUCCESS);
            let layers = [(&raw const layer).cast()];
            let ended = app.end_frame(session, display, &layers);
            assert_eq!(ended, xr::Result::SUCCESS);
        }
    });
}

#[test]
fn openxr_1_1_includes_former_extensions() {
    let name = "conformance::openxr_1_1_includes_former_extensions";
    alone(name, || {
        let binds = |app: &Application, profile: &CStr, place: &CStr| {
            let info = xr::ActionSetCreateInfo {
                ty: xr::ActionSetCreateInfo::TYPE,
                next: null(),
                action_set_name: field("game"),
                localized_action_set_name: field("Game"),
                priority: 0,
            };
            let mut set = xr::ActionSet::default();
            done!(app, CreateActionSet(app.instance, &info, &mut set));
            let info = xr::ActionCreateInfo {
                ty: xr::ActionCreateInfo::TYPE,
                next: null(),
                action_name: field("hand"),
                action_type: xr::ActionType::POSE_INPUT,
                count_subaction_paths: 0,
                subaction_paths: null(),
                localized_action_name: field("Hand"),
            };
            let mut action = xr::Action::default();
            done!(app, CreateAction(set, &info, &mut action));
            let binding = xr::ActionSuggestedBinding {
                action,
                binding: app.path(place),
            };
            let info = xr::InteractionProfileSuggestedBinding {
                ty: xr::InteractionProfileSuggestedBinding::TYPE,
                next: null(),
                interaction_profile: app.path(profile),
                count_suggested_bindings: 1,
                suggested_bindings: &raw const binding,
            };
            let result = call!(app, SuggestInteractionProfileBindings(app.instance, &info));
            done!(app, DestroyActionSet(set));
            result
        };
        let unsupported = xr::Result::ERROR_PATH_UNSUPPORTED;
        for (minor, wanted) in [(0, unsupported), (1, xr::Result::SUCCESS)] {
            let app = Application::direct(xr::Version::new(1, minor, 0));
            let is_1_1 = wanted == xr::Result::SUCCESS;
            assert_eq!(app.find("xrLocateSpaces\0").is_ok(), is_1_1);
            let simple = c"/interaction_profiles/khr/simple_controller";
            let surface = c"/user/hand/left/input/grip_surface/pose";
            assert_eq!(binds(&app, simple, surface), wanted, "1.{minor}");
            let pico = c"/interaction_profiles/bytedance/pico4_controller";
            let grip = c"/user/hand/left/input/grip/pose";
            assert_eq!(binds(&app, pico, grip), wanted, "1.{minor}");
            let session = app.session(null()).unwrap();
            let (mut count, mut spaces) = (0, [xr::ReferenceSpaceType::VIEW; 8]);
            let out = spaces.as_mut_ptr();
            done!(app, EnumerateReferenceSpaces(session, 8, &mut count, out));
            let floor = spaces.contains(&xr::ReferenceSpaceType::LOCAL_FLOOR);
            assert_eq!(floor, is_1_1);
            done!(app, DestroyInstance(app.instance));
        }
    });
}

#[test]
fn results_have_names() {
    alone("conformance::results_have_names", || {
        let Some(app) = Application::open(EXTENSIONS) else {
            return;
        };
        for (value, name) in [
            (xr::Result::SUCCESS, c"XR_SUCCESS"),
            (xr::Result::ERROR_TIME_INVALID, c"XR_ERROR_TIME_INVALID"),
            (
                xr::Result::from_raw(0x7fff_fffe),
                c"XR_UNKNOWN_SUCCESS_2147483646",
            ),
            (
                xr::Result::from_raw(i32::MIN),
                c"XR_UNKNOWN_FAILURE_-2147483648",
            ),
        ] {
            let mut buffer = [c_letter(); xr::MAX_RESULT_STRING_SIZE];
            done!(
                app,
                ResultToString(app.instance, value, buffer.as_mut_ptr())
            );
            // SAFETY: the runtime terminates the string.
            let text = unsafe { CStr::from_ptr(buffer.as_ptr()) };
            assert_eq!(text, name);
        }
    });
}
