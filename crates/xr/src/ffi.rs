//! The FFI boundary to the application. It catches panics, rejects calls in forked children, and validates the
//! structures that the application passes.
//!
//! The runtime cannot check that a non-null pointer points to memory of the declared type. The OpenXR specification
//! makes this the application's responsibility. The comments `SAFETY: the application passes valid pointers` refer to
//! this rule.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use openxr_sys as xr;

use crate::{debug, failure_report};

/// Result of an OpenXR function: a success code or an error code.
pub(crate) type Outcome<T = xr::Result> = Result<T, xr::Result>;

pub(crate) const DONE: Outcome = Ok(xr::Result::SUCCESS);

/// Maximum number of structures in a `next` chain. This also ends a cyclic chain.
const LONGEST_CHAIN: usize = 64;

/// Id of the process that made the first call.
static HOME: OnceLock<u32> = OnceLock::new();

/// Runs the body of an API function. `name` is the name of the function.
pub(crate) fn call(name: &CStr, body: impl FnOnce() -> Outcome) -> xr::Result {
    let here = std::process::id();
    if *HOME.get_or_init(|| here) != here {
        // The runtime's locks may be held by threads that do not exist in the forked child.
        return xr::Result::ERROR_RUNTIME_FAILURE;
    }
    debug::start_call();
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => return code,
        Ok(Err(code)) => code,
        Err(payload) => {
            // Dropping the payload may panic, too.
            std::mem::forget(payload);
            xr::Result::ERROR_RUNTIME_FAILURE
        }
    };
    let (message, error) = debug::report(name, code);
    failure_report::report(name, message, error);
    code
}

/// A structure that starts with its `XrStructureType` and its `next` pointer.
///
/// # Safety
/// The type must be `repr(C)` and start with an [`xr::StructureType`] and a pointer.
pub(crate) unsafe trait Structure {
    const TYPE: xr::StructureType;
}

macro_rules! structures {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: every structure of OpenXR starts with its type and a pointer to the next structure.
            unsafe impl Structure for xr::$name {
                const TYPE: xr::StructureType = xr::$name::TYPE;
            }
        )*
    };
}

structures!(
    ActionCreateInfo,
    ActionSetCreateInfo,
    ActionSpaceCreateInfo,
    ActionStateBoolean,
    ActionStateFloat,
    ActionStateGetInfo,
    ActionStatePose,
    ActionStateVector2f,
    ActionsSyncInfo,
    BoundSourcesForActionEnumerateInfo,
    CompositionLayerDepthInfoKHR,
    CompositionLayerProjection,
    CompositionLayerProjectionView,
    CompositionLayerQuad,
    DebugUtilsLabelEXT,
    DebugUtilsMessengerCallbackDataEXT,
    DebugUtilsMessengerCreateInfoEXT,
    DebugUtilsObjectNameInfoEXT,
    EventDataBuffer,
    ExtensionProperties,
    FrameBeginInfo,
    FrameEndInfo,
    FrameState,
    FrameWaitInfo,
    GraphicsBindingEGLMNDX,
    GraphicsBindingOpenGLXlibKHR,
    GraphicsBindingVulkanKHR,
    GraphicsRequirementsOpenGLKHR,
    GraphicsRequirementsVulkanKHR,
    HapticActionInfo,
    HapticVibration,
    InputSourceLocalizedNameGetInfo,
    InstanceCreateInfo,
    InstanceProperties,
    InteractionProfileState,
    InteractionProfileSuggestedBinding,
    ReferenceSpaceCreateInfo,
    SessionActionSetsAttachInfo,
    SessionBeginInfo,
    SessionCreateInfo,
    SpaceLocation,
    SpaceLocations,
    SpaceVelocities,
    SpaceVelocity,
    SpacesLocateInfo,
    SwapchainCreateInfo,
    SwapchainImageAcquireInfo,
    SwapchainImageReleaseInfo,
    SwapchainImageOpenGLKHR,
    SwapchainImageVulkanKHR,
    SwapchainImageWaitInfo,
    SystemGetInfo,
    SystemProperties,
    View,
    ViewConfigurationProperties,
    ViewConfigurationView,
    ViewLocateInfo,
    ViewState,
    VisibilityMaskKHR,
    VulkanDeviceCreateInfoKHR,
    VulkanGraphicsDeviceGetInfoKHR,
    VulkanInstanceCreateInfoKHR,
);

/// Reads a structure that the application passes.
///
/// # Safety
/// `pointer` must be null or come from the application.
pub(crate) unsafe fn input<'a, T: Structure>(pointer: *const T) -> Outcome<&'a T> {
    // SAFETY: the caller guarantees that `pointer` is null or comes from the application.
    unsafe { optional(pointer)?.ok_or(xr::Result::ERROR_VALIDATION_FAILURE) }
}

/// Reads a structure that the application may omit.
///
/// # Safety
/// The same as for [`input`].
pub(crate) unsafe fn optional<'a, T: Structure>(pointer: *const T) -> Outcome<Option<&'a T>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees that `pointer` is null or comes from the application. The structure starts with its
    // type, and is read only if it is aligned.
    let fits =
        pointer.is_aligned() && unsafe { pointer.cast::<xr::StructureType>().read() } == T::TYPE;
    if !fits {
        return Err(xr::Result::ERROR_VALIDATION_FAILURE);
    }
    // SAFETY: the caller guarantees that `pointer` is null or comes from the application. The alignment and the type
    // were checked.
    Ok(Some(unsafe { &*pointer }))
}

/// Returns a structure that the application provides for output.
///
/// # Safety
/// The same as for [`input`]. In addition, there must be no other reference to the structure.
pub(crate) unsafe fn output<'a, T: Structure>(pointer: *mut T) -> Outcome<&'a mut T> {
    // SAFETY: the caller guarantees that `pointer` is null or comes from the application and that there is no other
    // reference to the structure.
    unsafe {
        input(pointer.cast_const())?;
        Ok(&mut *pointer)
    }
}

/// Writes one value to an output pointer.
///
/// # Safety
/// `pointer` must be null or come from the application.
pub(crate) unsafe fn write_output<T>(pointer: *mut T, value: T) -> Outcome<()> {
    if pointer.is_null() {
        return Err(xr::Result::ERROR_VALIDATION_FAILURE);
    }
    // SAFETY: the pointer is not null, and the application passes valid pointers.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Finds the structure of type `T` in the chain that starts at `next`.
///
/// # Safety
/// `next` is null or a structure chain of the application.
pub(crate) unsafe fn chained<T: Structure>(next: *const c_void) -> Option<*const T> {
    let mut at = next.cast::<xr::BaseInStructure>();
    for _ in 0..LONGEST_CHAIN {
        if at.is_null() {
            return None;
        }
        // SAFETY: the caller passes a valid chain, and each structure of a chain starts with this header.
        let head = unsafe { &*at };
        if head.ty == T::TYPE {
            return Some(at.cast());
        }
        at = head.next;
    }
    None
}

/// Reads an array of `count` elements. More than `most` elements are an error.
///
/// # Safety
/// `first` is null or points to `count` elements of the application.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: u32, most: u32) -> Outcome<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if first.is_null() || !first.is_aligned() || count > most => {
            Err(xr::Result::ERROR_VALIDATION_FAILURE)
        }
        // SAFETY: `first` is not null (checked above), so by the caller's contract it points to `count` elements.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count as usize) }),
    }
}

/// Implements the two-call idiom: the first call returns the number of elements, and the second call fills the
/// application's array. `put` writes one element.
///
/// # Safety
/// `count` and `out` must each be null or come from the application, and `out` must have room for `capacity` elements.
pub(crate) unsafe fn list<I, T>(
    items: &[I],
    capacity: u32,
    count: *mut u32,
    out: *mut T,
    put: impl Fn(&I, *mut T) -> Outcome<()>,
) -> Outcome {
    let length = u32::try_from(items.len()).map_err(|_| xr::Result::ERROR_RUNTIME_FAILURE)?;
    // SAFETY: the caller guarantees that `count` is null or comes from the application.
    unsafe { write_output(count, length)? };
    if capacity == 0 {
        return DONE;
    }
    if out.is_null() {
        return Err(xr::Result::ERROR_VALIDATION_FAILURE);
    }
    if capacity < length {
        return Err(xr::Result::ERROR_SIZE_INSUFFICIENT);
    }
    for (index, item) in items.iter().enumerate() {
        // SAFETY: the array has `capacity` elements, and `capacity` was compared with the number of items above.
        put(item, unsafe { out.add(index) })?;
    }
    DONE
}

/// Like [`list`], for plain values.
///
/// # Safety
/// The same as for [`list`].
pub(crate) unsafe fn values<T: Copy>(
    items: &[T],
    capacity: u32,
    count: *mut u32,
    out: *mut T,
) -> Outcome {
    // SAFETY: the caller upholds the contract of `list`, which writes only to elements of `out`.
    unsafe {
        list(items, capacity, count, out, |item, pointer| {
            pointer.write(*item);
            Ok(())
        })
    }
}

/// Like [`list`], for a string. The length includes the terminating zero.
///
/// # Safety
/// The same as for [`list`].
pub(crate) unsafe fn text(text: &str, capacity: u32, count: *mut u32, out: *mut c_char) -> Outcome {
    let bytes: Vec<u8> = text.bytes().chain([0]).collect();
    // SAFETY: the caller upholds the contract of `list`. Both element types are bytes.
    unsafe { values(&bytes, capacity, count, out.cast()) }
}

/// Writes a string to a fixed-size field. The string is truncated if necessary.
pub(crate) fn field<const N: usize>(field: &mut [c_char; N], text: &str) {
    let mut fits = text.len().min(N - 1);
    while !text.is_char_boundary(fits) {
        fits -= 1;
    }
    field.fill(0);
    for (to, from) in field.iter_mut().zip(&text.as_bytes()[..fits]) {
        *to = c_char::from_ne_bytes([*from]);
    }
}

/// Reads the string of a fixed-size field.
///
/// # Errors
/// Returns an error if the field has no terminating zero, or is not UTF-8.
pub(crate) fn field_text<const N: usize>(field: &[c_char; N]) -> Outcome<String> {
    let bytes = field.map(|c| c.to_ne_bytes()[0]);
    let text = CStr::from_bytes_until_nul(&bytes).ok();
    let text = text.and_then(|text| text.to_str().ok());
    text.map(str::to_owned)
        .ok_or(xr::Result::ERROR_VALIDATION_FAILURE)
}

/// Reads a string that the application passes.
///
/// # Safety
/// `pointer` is null or a zero-terminated string of the application.
pub(crate) unsafe fn string<'a>(pointer: *const c_char) -> Outcome<&'a str> {
    if pointer.is_null() {
        return Err(xr::Result::ERROR_VALIDATION_FAILURE);
    }
    // SAFETY: the caller guarantees that `pointer` is null or a zero-terminated string.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| xr::Result::ERROR_VALIDATION_FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_returns_its_length_first() {
        let query = |capacity, room: &mut [u8]| {
            let mut count = 0;
            // SAFETY: both pointers are valid, and the capacity is not larger than `room`.
            let result = unsafe { values(&[7, 8, 9], capacity, &mut count, room.as_mut_ptr()) };
            (result, count)
        };
        let mut room = [0; 4];
        assert_eq!(query(0, &mut room), (DONE, 3));
        let small = Err(xr::Result::ERROR_SIZE_INSUFFICIENT);
        assert_eq!((query(2, &mut room), room), ((small, 3), [0; 4]));
        assert_eq!((query(4, &mut room), room), ((DONE, 3), [7, 8, 9, 0]));
    }

    #[test]
    fn structures_of_another_type_are_rejected() {
        let mut wrong = xr::FrameWaitInfo {
            ty: xr::FrameBeginInfo::TYPE,
            next: std::ptr::null(),
        };
        // SAFETY: `wrong` is valid.
        let result = unsafe { input(&raw const wrong) };
        assert_eq!(result.err(), Some(xr::Result::ERROR_VALIDATION_FAILURE));
        wrong.ty = xr::FrameWaitInfo::TYPE;
        // SAFETY: `wrong` is valid, and now has the right type.
        assert!(unsafe { input(&raw const wrong) }.is_ok());
        let unaligned = (&raw const wrong).wrapping_byte_add(1);
        // SAFETY: `input` does not read a pointer that is not aligned.
        let result = unsafe { input(unaligned) };
        assert_eq!(result.err(), Some(xr::Result::ERROR_VALIDATION_FAILURE));
    }

    #[test]
    fn a_cyclic_chain_ends() {
        let mut head = xr::BaseInStructure {
            ty: xr::FrameWaitInfo::TYPE,
            next: std::ptr::null(),
        };
        head.next = &raw const head;
        let next = (&raw const head).cast();
        // SAFETY: the structure is valid, and has the common header of all structures.
        let (other, same) = unsafe {
            let other = chained::<xr::FrameBeginInfo>(next);
            (other, chained::<xr::FrameWaitInfo>(next))
        };
        assert!(other.is_none() && same.is_some());
    }

    #[test]
    fn a_panic_becomes_a_runtime_failure() {
        std::panic::set_hook(Box::new(|_| {}));
        let failure = xr::Result::ERROR_RUNTIME_FAILURE;
        assert_eq!(call(c"xrTest", || panic!("as a bug would")), failure);
        let _ = std::panic::take_hook();
    }

    #[test]
    fn an_unterminated_field_is_rejected() {
        let mut short = [0; 4];
        field(&mut short, "ab\u{e4}");
        assert_eq!(
            field_text(&short).as_deref(),
            Ok("ab"),
            "no partial character"
        );
        assert!(field_text(&[1; 4]).is_err());
    }
}
