//! The test application, with its loader, instance, session and events.

#[path = "../../../media/tests/skip/mod.rs"]
mod skip;

use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null;

use openxr_sys::{self as xr, pfn};

pub(crate) use skip::skip;

/// An environment variable of the application's process, with the name of the test.
const INSIDE: &str = "OPENUVR_TEST_INSIDE";

/// Runs `application` in a new process, by executing the test `test` again there.
pub(crate) fn alone(test: &str, application: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return application();
    }
    let itself = std::env::current_exe().unwrap();
    let runtime = itself.with_file_name("libopenuvr_xr.so");
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("runtime.json");
    let text = format!(
        r#"{{"file_format_version": "1.0.0", "runtime": {{"name": "OpenUVR", "library_path": {runtime:?}}}}}"#
    );
    std::fs::write(&manifest, text).unwrap();
    let mut command = Command::new(&itself);
    command
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, test)
        .env("XR_RUNTIME_JSON", &manifest)
        .env("XDG_CONFIG_HOME", folder.path())
        .env_remove("OPENUVR_RUN")
        .env_remove("DISPLAY");
    if let Some(driver) = lavapipe() {
        command.env("VK_ICD_FILENAMES", driver);
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    if stderr.contains("SKIPPED") {
        eprintln!("{stderr}");
    }
}

/// The driver manifest of lavapipe, so that the test gives the same result on a machine with a GPU.
fn lavapipe() -> Option<PathBuf> {
    let files = std::fs::read_dir("/usr/share/vulkan/icd.d").into_iter();
    let mut files = files.flatten().flatten().map(|file| file.path());
    files.find(|path| path.to_string_lossy().contains("lvp_icd"))
}

/// The loader, and an instance of this runtime.
pub(crate) struct Application {
    get_proc: pfn::GetInstanceProcAddr,
    pub(crate) instance: xr::Instance,
    _library: libloading::Library,
}

/// Calls an OpenXR function, whose name is written without `xr`.
macro_rules! call {
    ($application:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let name = concat!("xr", stringify!($name), "\0");
        #[allow(unused_unsafe, reason = "the call may be in an unsafe block")]
        // SAFETY: the function has the type that corresponds to its name, and is called as specified.
        let result = unsafe {
            let function: openxr_sys::pfn::$name = $application.function(name);
            function($($argument),*)
        };
        result
    }};
}

/// Calls a function and requires success.
macro_rules! done {
    ($application:expr, $name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(call!($application, $name($($argument),*)), openxr_sys::Result::SUCCESS)
    };
}

/// Converts a text to a string field of fixed size.
pub(crate) fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().zip(text.bytes()) {
        *to = c_char::from_ne_bytes([from]);
    }
    field
}

impl Application {
    /// Opens the loader and creates an instance. Prints a message and returns `None` if the loader is not installed.
    pub(crate) fn open(extensions: &[&[u8]]) -> Option<Application> {
        // SAFETY: the loader has no initialisers with preconditions, and exports a function of this type.
        let (library, get_proc) = unsafe {
            let Ok(library) = libloading::Library::new("libopenxr_loader.so.1") else {
                skip("the OpenXR loader is not installed: apt-get install libopenxr-loader1");
                return None;
            };
            let get_proc = library.get::<pfn::GetInstanceProcAddr>(b"xrGetInstanceProcAddr\0");
            let get_proc = *get_proc.unwrap();
            (library, get_proc)
        };
        let mut application = Application {
            get_proc,
            instance: xr::Instance::default(),
            _library: library,
        };
        let mut instance = xr::Instance::default();
        let result = application.create(extensions, xr::Version::new(1, 0, 0), &mut instance);
        assert_eq!(result, xr::Result::SUCCESS);
        application.instance = instance;
        Some(application)
    }

    /// Loads the runtime without the loader and creates an instance of this OpenXR version. The loader of Debian 12
    /// does not support OpenXR 1.1.
    pub(crate) fn direct(version: xr::Version) -> Application {
        let itself = std::env::current_exe().unwrap();
        let runtime = itself.with_file_name("libopenuvr_xr.so");
        // SAFETY: the runtime has no initialisers with preconditions, and exports a function of this type,
        // called with valid parameters.
        let (library, get_proc) = unsafe {
            let library = libloading::Library::new(runtime).unwrap();
            let mut loader: xr::NegotiateLoaderInfo = std::mem::zeroed();
            loader.struct_type = xr::NegotiateLoaderInfo::TYPE;
            loader.struct_version = xr::NegotiateLoaderInfo::VERSION;
            loader.struct_size = size_of::<xr::NegotiateLoaderInfo>();
            (loader.min_interface_version, loader.max_interface_version) = (1, 1);
            loader.min_api_version = xr::Version::new(1, 0, 0);
            loader.max_api_version = xr::Version::new(1, 0x3ff, 0xfff);
            let mut request: xr::NegotiateRuntimeRequest = std::mem::zeroed();
            request.struct_type = xr::NegotiateRuntimeRequest::TYPE;
            request.struct_version = xr::NegotiateRuntimeRequest::VERSION;
            request.struct_size = size_of::<xr::NegotiateRuntimeRequest>();
            let name = b"xrNegotiateLoaderRuntimeInterface\0";
            let negotiate = library.get::<pfn::NegotiateLoaderRuntimeInterface>(name);
            let done = negotiate.unwrap()(&raw const loader, &raw mut request);
            assert_eq!(done, xr::Result::SUCCESS);
            (library, request.get_instance_proc_addr.unwrap())
        };
        let mut application = Application {
            get_proc,
            instance: xr::Instance::default(),
            _library: library,
        };
        let mut instance = xr::Instance::default();
        let headless = [xr::MND_HEADLESS_EXTENSION_NAME];
        let result = application.create(&headless, version, &mut instance);
        assert_eq!(result, xr::Result::SUCCESS);
        application.instance = instance;
        application
    }

    /// `xrCreateInstance`.
    pub(crate) fn create(
        &self,
        extensions: &[&[u8]],
        version: xr::Version,
        instance: &mut xr::Instance,
    ) -> xr::Result {
        let names: Vec<*const c_char> =
            extensions.iter().map(|name| name.as_ptr().cast()).collect();
        let info = xr::InstanceCreateInfo {
            ty: xr::InstanceCreateInfo::TYPE,
            next: null(),
            create_flags: xr::InstanceCreateFlags::EMPTY,
            application_info: xr::ApplicationInfo {
                application_name: field("test"),
                application_version: 1,
                engine_name: field(""),
                engine_version: 0,
                api_version: version,
            },
            enabled_api_layer_count: 0,
            enabled_api_layer_names: null(),
            enabled_extension_count: u32::try_from(names.len()).unwrap(),
            enabled_extension_names: names.as_ptr(),
        };
        call!(self, CreateInstance(&info, instance))
    }

    /// The function with this zero-terminated name.
    ///
    /// # Safety
    /// `F` is the type of the function.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> F {
        let found = self.find(name).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        // SAFETY: the caller guarantees that `F` is the type of the function. All function pointers have the same size.
        unsafe { std::mem::transmute_copy(&found) }
    }

    pub(crate) fn find(&self, name: &str) -> Result<pfn::VoidFunction, xr::Result> {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap();
        let mut found = None;
        // SAFETY: the instance is valid, or null, as required for functions that are called before an instance exists.
        let result = unsafe { (self.get_proc)(self.instance, name.as_ptr(), &mut found) };
        found.ok_or(result)
    }

    pub(crate) fn system(&self) -> xr::SystemId {
        let info = xr::SystemGetInfo {
            ty: xr::SystemGetInfo::TYPE,
            next: null(),
            form_factor: xr::FormFactor::HEAD_MOUNTED_DISPLAY,
        };
        let mut system = xr::SystemId::NULL;
        done!(self, GetSystem(self.instance, &info, &mut system));
        system
    }

    /// `xrCreateSession` with a graphics binding, or without one if the pointer is null.
    pub(crate) fn session(&self, binding: *const c_void) -> Result<xr::Session, xr::Result> {
        let info = xr::SessionCreateInfo {
            ty: xr::SessionCreateInfo::TYPE,
            next: binding,
            create_flags: xr::SessionCreateFlags::EMPTY,
            system_id: self.system(),
        };
        let mut session = xr::Session::default();
        match call!(self, CreateSession(self.instance, &info, &mut session)) {
            xr::Result::SUCCESS => Ok(session),
            error => Err(error),
        }
    }

    pub(crate) fn begin(&self, session: xr::Session) -> xr::Result {
        let info = xr::SessionBeginInfo {
            ty: xr::SessionBeginInfo::TYPE,
            next: null(),
            primary_view_configuration_type: xr::ViewConfigurationType::PRIMARY_STEREO,
        };
        call!(self, BeginSession(session, &info))
    }

    /// The states that the session has entered since the last call.
    pub(crate) fn states(&self) -> Vec<xr::SessionState> {
        let mut states = Vec::new();
        loop {
            // SAFETY: zero is valid for all fields.
            let mut event: xr::EventDataBuffer = unsafe { std::mem::zeroed() };
            event.ty = xr::EventDataBuffer::TYPE;
            match call!(self, PollEvent(self.instance, &mut event)) {
                xr::Result::EVENT_UNAVAILABLE => return states,
                result => assert_eq!(result, xr::Result::SUCCESS),
            }
            assert_eq!(event.ty, xr::EventDataSessionStateChanged::TYPE);
            // SAFETY: the event's type has been checked.
            let event = unsafe {
                (&raw const event)
                    .cast::<xr::EventDataSessionStateChanged>()
                    .read()
            };
            assert!(event.time.as_nanos() > 0);
            states.push(event.state);
        }
    }

    /// Polls events until an event reports a changed interaction profile. Returns `false` if there is no such event.
    pub(crate) fn profile_changed(&self) -> bool {
        loop {
            // SAFETY: zero is valid for all fields.
            let mut event: xr::EventDataBuffer = unsafe { std::mem::zeroed() };
            event.ty = xr::EventDataBuffer::TYPE;
            if call!(self, PollEvent(self.instance, &mut event)) != xr::Result::SUCCESS {
                return false;
            }
            if event.ty == xr::EventDataInteractionProfileChanged::TYPE {
                return true;
            }
        }
    }

    /// `xrWaitFrame`. Returns the predicted display time and `shouldRender`.
    pub(crate) fn wait_frame(&self, session: xr::Session) -> Result<(xr::Time, bool), xr::Result> {
        // SAFETY: zero is valid for all fields.
        let mut state: xr::FrameState = unsafe { std::mem::zeroed() };
        state.ty = xr::FrameState::TYPE;
        match call!(self, WaitFrame(session, null(), &mut state)) {
            xr::Result::SUCCESS => {
                assert!(state.predicted_display_period.as_nanos() > 0);
                Ok((state.predicted_display_time, state.should_render.into()))
            }
            error => Err(error),
        }
    }

    pub(crate) fn begin_frame(&self, session: xr::Session) -> xr::Result {
        call!(self, BeginFrame(session, null()))
    }

    /// `xrEndFrame` with these layers.
    pub(crate) fn end_frame(
        &self,
        session: xr::Session,
        display_time: xr::Time,
        layers: &[*const xr::CompositionLayerBaseHeader],
    ) -> xr::Result {
        let info = xr::FrameEndInfo {
            ty: xr::FrameEndInfo::TYPE,
            next: null(),
            display_time,
            environment_blend_mode: xr::EnvironmentBlendMode::OPAQUE,
            layer_count: u32::try_from(layers.len()).unwrap(),
            layers: layers.as_ptr(),
        };
        call!(self, EndFrame(session, &info))
    }

    /// Runs a frame without layers.
    pub(crate) fn frame(&self, session: xr::Session) -> (xr::Time, bool) {
        let (display, drawn) = self.wait_frame(session).unwrap();
        assert_eq!(self.begin_frame(session), xr::Result::SUCCESS);
        let ended = self.end_frame(session, display, &[]);
        assert_eq!(ended, xr::Result::SUCCESS);
        (display, drawn)
    }

    /// Creates a reference space without an offset.
    pub(crate) fn space(&self, session: xr::Session, kind: xr::ReferenceSpaceType) -> xr::Space {
        let info = xr::ReferenceSpaceCreateInfo {
            ty: xr::ReferenceSpaceCreateInfo::TYPE,
            next: null(),
            reference_space_type: kind,
            pose_in_reference_space: xr::Posef::IDENTITY,
        };
        let mut space = xr::Space::default();
        done!(self, CreateReferenceSpace(session, &info, &mut space));
        space
    }

    pub(crate) fn path(&self, text: &CStr) -> xr::Path {
        let mut path = xr::Path::NULL;
        done!(self, StringToPath(self.instance, text.as_ptr(), &mut path));
        path
    }
}
