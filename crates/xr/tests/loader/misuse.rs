//! Invalid calls: each returns the specified error, and existing objects stay usable.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::null;

use openxr_sys::{self as xr, Handle as _, pfn};

use crate::rig::{Application, alone};

const HEADLESS: &[&[u8]] = &[xr::MND_HEADLESS_EXTENSION_NAME];
const ORDER: xr::Result = xr::Result::ERROR_CALL_ORDER_INVALID;

#[test]
fn unsupported_instances_are_rejected() {
    alone("misuse::unsupported_instances_are_rejected", || {
        let Some(mut app) = Application::open(&[]) else {
            return;
        };
        done!(app, DestroyInstance(app.instance));
        app.instance = xr::Instance::NULL;
        let mut instance = xr::Instance::NULL;
        let newest = app.create(&[], xr::Version::new(2, 0, 0), &mut instance);
        assert_eq!(newest, xr::Result::ERROR_API_VERSION_UNSUPPORTED);
        let unknown = app.create(
            &[b"XR_ACME_glove\0"],
            xr::Version::new(1, 0, 0),
            &mut instance,
        );
        assert_eq!(unknown, xr::Result::ERROR_EXTENSION_NOT_PRESENT);
    });
}

#[test]
fn functions_of_disabled_extensions_are_not_found() {
    alone(
        "misuse::functions_of_disabled_extensions_are_not_found",
        || {
            let Some(app) = Application::open(HEADLESS) else {
                return;
            };
            let unsupported = Some(xr::Result::ERROR_FUNCTION_UNSUPPORTED);
            for name in [
                "xrCreateVulkanDeviceKHR\0",
                "xrGetOpenGLGraphicsRequirementsKHR\0",
            ] {
                assert_eq!(app.find(name).err(), unsupported, "{name}");
            }
            assert!(app.find("xrCreateSession\0").is_ok());
        },
    );
}

#[test]
fn session_calls_out_of_order_are_rejected() {
    alone("misuse::session_calls_out_of_order_are_rejected", || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        let second = app.session(null());
        assert_eq!(second, Err(xr::Result::ERROR_LIMIT_REACHED));
        let not_running = xr::Result::ERROR_SESSION_NOT_RUNNING;
        assert_eq!(app.wait_frame(session), Err(not_running));
        assert_eq!(app.begin_frame(session), not_running);
        assert_eq!(call!(app, EndSession(session)), not_running);
        assert_eq!(call!(app, RequestExitSession(session)), not_running);
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        assert_eq!(app.begin(session), xr::Result::ERROR_SESSION_RUNNING);
        // Destroying a running session makes its handle invalid. Another session can then be created.
        done!(app, DestroySession(session));
        let gone = xr::Result::ERROR_HANDLE_INVALID;
        assert_eq!(app.wait_frame(session), Err(gone));
        assert_eq!(call!(app, DestroySession(session)), gone);
        assert!(app.session(null()).is_ok());
    });
}

#[test]
fn frame_calls_out_of_order_are_rejected() {
    alone("misuse::frame_calls_out_of_order_are_rejected", || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        assert_eq!(app.begin_frame(session), ORDER);
        let now = xr::Time::from_nanos(1);
        assert_eq!(app.end_frame(session, now, &[]), ORDER);
        // If a frame is never ended, the next frame discards it.
        for round in 0..3 {
            let (display, _) = app.wait_frame(session).unwrap();
            let begun = app.begin_frame(session);
            match round {
                0 => assert_eq!(begun, xr::Result::SUCCESS),
                _ => assert_eq!(begun, xr::Result::FRAME_DISCARDED),
            }
            assert!(display.as_nanos() > 0);
        }
        let zero = xr::Time::from_nanos(0);
        let invalid = xr::Result::ERROR_TIME_INVALID;
        assert_eq!(app.end_frame(session, zero, &[]), invalid);
        assert_eq!(app.end_frame(session, now, &[]), xr::Result::SUCCESS);
        assert_eq!(app.end_frame(session, now, &[]), ORDER);
    });
}

#[test]
fn a_second_frame_wait_ends_with_begin_frame() {
    let name = "misuse::a_second_frame_wait_ends_with_begin_frame";
    alone(name, || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        app.wait_frame(session).unwrap();
        let app = &app;
        std::thread::scope(|scope| {
            let second = scope.spawn(move || app.wait_frame(session));
            assert_eq!(app.begin_frame(session), xr::Result::SUCCESS);
            assert!(second.join().unwrap().is_ok());
        });
        // Destroying the session also ends a wait for a frame.
        std::thread::scope(|scope| {
            let third = scope.spawn(move || app.wait_frame(session));
            done!(app, DestroySession(session));
            let gone = [
                xr::Result::ERROR_HANDLE_INVALID,
                xr::Result::ERROR_SESSION_NOT_RUNNING,
            ];
            assert!(third.join().unwrap().is_err_and(|e| gone.contains(&e)));
        });
    });
}

#[test]
fn a_crash_does_not_affect_other_applications() {
    const CRASH: &str = "OPENUVR_TEST_CRASH";
    let name = "misuse::a_crash_does_not_affect_other_applications";
    alone(name, || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        app.wait_frame(session).unwrap();
        assert_eq!(app.begin_frame(session), xr::Result::SUCCESS);
        if std::env::var_os(CRASH).is_some() {
            std::process::abort();
        }
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args([name, "--exact"]).env(CRASH, "1");
        let ended = other.output().unwrap().status;
        assert_eq!(ended.signal(), Some(libc::SIGABRT), "the crash");
        // The crash of the other process does not affect the frame in this process.
        let at = xr::Time::from_nanos(1);
        assert_eq!(app.end_frame(session, at, &[]), xr::Result::SUCCESS);
    });
}

#[test]
fn objects_may_be_destroyed_in_any_order() {
    let name = "misuse::objects_may_be_destroyed_in_any_order";
    alone(name, || {
        // Load the runtime without the loader, which would itself reject a destroyed instance.
        let app = Application::direct(xr::Version::new(1, 0, 0));
        let gone = xr::Result::ERROR_HANDLE_INVALID;
        let session = app.session(null()).unwrap();
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
        let [base, space] = [(); 2].map(|()| app.space(session, xr::ReferenceSpaceType::LOCAL));
        let (at, _) = app.wait_frame(session).unwrap();
        assert_eq!(app.begin_frame(session), xr::Result::SUCCESS);
        done!(app, DestroySpace(base));
        // SAFETY: zero is valid for all fields.
        let mut location: xr::SpaceLocation = unsafe { std::mem::zeroed() };
        location.ty = xr::SpaceLocation::TYPE;
        assert_eq!(
            call!(app, LocateSpace(space, base, at, &mut location)),
            gone
        );
        done!(app, LocateSpace(space, space, at, &mut location));
        assert_eq!(app.end_frame(session, at, &[]), xr::Result::SUCCESS);
        // The instance is destroyed first, which also destroys its children.
        // SAFETY: each name belongs to a function of the stated type.
        let (end_space, end_session) = unsafe {
            let space: pfn::DestroySpace = app.function("xrDestroySpace\0");
            let session: pfn::DestroySession = app.function("xrDestroySession\0");
            (space, session)
        };
        done!(app, DestroyInstance(app.instance));
        // SAFETY: the runtime is still loaded; handles are not dereferenced.
        unsafe {
            assert_eq!(end_space(space), gone);
            assert_eq!(end_session(session), gone);
        }
    });
}

#[test]
fn invalid_handles_are_rejected() {
    alone("misuse::invalid_handles_are_rejected", || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        let space = app.space(session, xr::ReferenceSpaceType::LOCAL);
        let invalid = xr::Result::ERROR_HANDLE_INVALID;
        for raw in [1, session.into_raw() + 1, u64::MAX, space.into_raw()] {
            assert_eq!(app.begin(xr::Session::from_raw(raw)), invalid, "{raw:x}");
        }
        // A session's children are destroyed with it.
        done!(app, DestroySession(session));
        assert_eq!(call!(app, DestroySpace(space)), invalid);
    });
}

#[test]
fn a_headless_session_needs_its_extension() {
    alone("misuse::a_headless_session_needs_its_extension", || {
        let Some(app) = Application::open(&[]) else {
            return;
        };
        let invalid = Err(xr::Result::ERROR_GRAPHICS_DEVICE_INVALID);
        assert_eq!(app.session(null()), invalid);
    });
}

#[test]
fn a_forked_child_has_no_runtime() {
    alone("misuse::a_forked_child_has_no_runtime", || {
        let Some(app) = Application::open(HEADLESS) else {
            return;
        };
        let session = app.session(null()).unwrap();
        // SAFETY: the child only calls the runtime, which takes no lock there, and exits at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = app.begin(session) == xr::Result::ERROR_RUNTIME_FAILURE;
            // SAFETY: `_exit` runs no exit handlers of the parent.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: `child` is a child of this process, and the pointer to its status is valid.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "rejected in the child");
        assert_eq!(app.begin(session), xr::Result::SUCCESS);
    });
}
