//! libxkbcommon, opened at run time. It compiles a key map, and the keys of this map are returned as plain data.
//!
//! The declared functions have these types in every `libxkbcommon.so.0` since 1.0 (2020).
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// A key of a map.
pub(super) struct RawKey {
    pub(super) keycode: u8,
    /// The key's name in the map, such as `AD01`; empty if the key has no name.
    pub(super) name: String,
    /// The key's levels, by group.
    pub(super) groups: Vec<Vec<Level>>,
    /// The real modifiers that a press sets.
    pub(super) modifiers: u8,
}

/// A level of a key.
pub(super) struct Level {
    /// The combinations of real modifiers that select this level.
    pub(super) masks: Vec<u8>,
    /// The level's symbol; 0 if the level has no symbol, or several symbols.
    pub(super) symbol: u32,
}

type Object = *mut c_void;

/// `struct xkb_rule_names`.
#[repr(C)]
struct RuleNames {
    rules: *const c_char,
    model: *const c_char,
    layout: *const c_char,
    variant: *const c_char,
    options: *const c_char,
}

struct Functions {
    context_new: unsafe extern "C" fn(c_int) -> Object,
    context_unref: unsafe extern "C" fn(Object),
    context_set_log_level: unsafe extern "C" fn(Object, c_int),
    keymap_new: unsafe extern "C" fn(Object, *const c_char, usize, c_int, c_int) -> Object,
    keymap_of_names: unsafe extern "C" fn(Object, *const RuleNames, c_int) -> Object,
    keymap_unref: unsafe extern "C" fn(Object),
    key_get_name: unsafe extern "C" fn(Object, u32) -> *const c_char,
    num_layouts: unsafe extern "C" fn(Object, u32) -> u32,
    num_levels: unsafe extern "C" fn(Object, u32, u32) -> u32,
    syms_by_level: unsafe extern "C" fn(Object, u32, u32, u32, *mut *const u32) -> c_int,
    mods_for_level: unsafe extern "C" fn(Object, u32, u32, u32, *mut u32, usize) -> usize,
    state_new: unsafe extern "C" fn(Object) -> Object,
    state_unref: unsafe extern "C" fn(Object),
    state_update_key: unsafe extern "C" fn(Object, u32, c_int) -> c_int,
    state_serialize_mods: unsafe extern "C" fn(Object, c_int) -> u32,
    /// Keeps the library with the functions loaded.
    _library: libloading::Library,
}

/// `XKB_LOG_LEVEL_CRITICAL`: errors in the map are not logged, because the callers report them.
const LOG_CRITICAL: c_int = 10;
/// `XKB_KEYMAP_FORMAT_TEXT_V1`.
const FORMAT_TEXT_V1: c_int = 1;
/// `XKB_KEY_DOWN`.
const KEY_DOWN: c_int = 1;
/// `XKB_STATE_MODS_EFFECTIVE`.
const MODS_EFFECTIVE: c_int = 8;
/// Maximum number of modifier combinations that are read for a level: all combinations of eight modifiers.
const MASKS: usize = 256;
/// Maximum number of groups of a key (XKB's protocol, section 7.2), and maximum number of levels (in practice,
/// libxkbcommon's own limit).
const GROUPS: u32 = 4;
const LEVELS: u32 = 64;

/// The keys of the map with this text.
///
/// # Errors
/// Returns a one-line error if the library is missing or the text is not a key map.
pub(super) fn keys(text: &[u8]) -> Result<Vec<RawKey>, String> {
    let lib = library()?;
    let context = context(lib)?;
    // SAFETY: `context` is live. The library reads and copies the `text.len()` bytes of `text`. It is designed to parse
    // untrusted text.
    let map = unsafe {
        (lib.keymap_new)(
            context.0,
            text.as_ptr().cast(),
            text.len(),
            FORMAT_TEXT_V1,
            0,
        )
    };
    let map = Owned::new(map, lib.keymap_unref).ok_or("the compositor's key map is not valid")?;
    Ok(keys_of(lib, &map))
}

/// The keys of the map for these names of rules, model, layouts, variants and options. The library has a default for
/// each `None`; some defaults come from environment variables.
///
/// # Errors
/// Returns a one-line error if the library is missing or there is no such layout.
pub(super) fn keys_of_names(names: [Option<&CStr>; 5]) -> Result<Vec<RawKey>, String> {
    let lib = library()?;
    let context = context(lib)?;
    let [rules, model, layout, variant, options] =
        names.map(|name| name.map_or(std::ptr::null(), CStr::as_ptr));
    let names = RuleNames {
        rules,
        model,
        layout,
        variant,
        options,
    };
    // SAFETY: `context` is live. The call copies `names` and its strings, which outlive the call.
    let map = unsafe { (lib.keymap_of_names)(context.0, &raw const names, 0) };
    let map = Owned::new(map, lib.keymap_unref).ok_or("there is no such keyboard layout")?;
    Ok(keys_of(lib, &map))
}

fn library() -> Result<&'static Functions, String> {
    static LIBRARY: OnceLock<Result<Functions, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn context(lib: &Functions) -> Result<Owned, String> {
    // SAFETY: the flags are `XKB_CONTEXT_NO_FLAGS` (0); the function has no other precondition.
    let context = Owned::new(unsafe { (lib.context_new)(0) }, lib.context_unref)
        .ok_or("libxkbcommon can't start: its layout files (package xkb-data) are missing")?;
    // SAFETY: `context` is a live context.
    unsafe { (lib.context_set_log_level)(context.0, LOG_CRITICAL) };
    Ok(context)
}

fn keys_of(lib: &Functions, map: &Owned) -> Vec<RawKey> {
    (8..=u8::MAX)
        .map(|keycode| key(lib, map, keycode))
        .collect()
}

/// The key with this key code. If the map lacks this key, the result has no groups.
fn key(lib: &Functions, map: &Owned, keycode: u8) -> RawKey {
    let code = u32::from(keycode);
    // SAFETY: `map` is a live map; every key code is permitted.
    let name = unsafe { (lib.key_get_name)(map.0, code) };
    let name = match name.is_null() {
        true => String::new(),
        // SAFETY: the name is not null, so it is a string of the map, which outlives this borrow.
        false => unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned(),
    };
    // SAFETY: `map` is a live map; every key code is permitted.
    let groups = unsafe { (lib.num_layouts)(map.0, code) }.min(GROUPS);
    let groups = (0..groups).map(|group| {
        // SAFETY: `map` is a live map, and the key has this group.
        let levels = unsafe { (lib.num_levels)(map.0, code, group) }.min(LEVELS);
        let level = |level| self::level(lib, map, (code, group, level));
        (0..levels).map(level).collect()
    });
    RawKey {
        keycode,
        name,
        groups: groups.collect(),
        modifiers: modifiers(lib, map, code),
    }
}

fn level(lib: &Functions, map: &Owned, (code, group, level): (u32, u32, u32)) -> Level {
    let mut symbols = std::ptr::null();
    // SAFETY: `map` is live, and the key has this group and level. The call writes only the pointer `symbols`.
    let count = unsafe { (lib.syms_by_level)(map.0, code, group, level, &raw mut symbols) };
    let symbol = match count == 1 && !symbols.is_null() {
        // SAFETY: the call returned one symbol, and `symbols` points to it. The symbol belongs to the map, which is
        // live.
        true => unsafe { *symbols },
        false => 0,
    };
    let mut masks = [0; MASKS];
    // SAFETY: `map`, group and level as above. The function writes at most `MASKS` values, and `masks` has room for
    // them.
    let count =
        unsafe { (lib.mods_for_level)(map.0, code, group, level, masks.as_mut_ptr(), MASKS) };
    let masks = masks.into_iter().take(count);
    Level {
        // The real modifiers are the first eight, in the order of core X. Combinations with other modifiers are
        // dropped, because a state of real modifiers cannot contain them.
        masks: masks.filter_map(|mask| u8::try_from(mask).ok()).collect(),
        symbol,
    }
}

/// The real modifiers that are set when only this key is pressed.
fn modifiers(lib: &Functions, map: &Owned, code: u32) -> u8 {
    // SAFETY: `map` is live. The new state holds its own reference to the map.
    let state = unsafe { (lib.state_new)(map.0) };
    let Some(state) = Owned::new(state, lib.state_unref) else {
        return 0;
    };
    // SAFETY: `state` is live; every key code is permitted.
    let mods = unsafe {
        (lib.state_update_key)(state.0, code, KEY_DOWN);
        (lib.state_serialize_mods)(state.0, MODS_EFFECTIVE)
    };
    mods.to_le_bytes()[0]
}

/// A reference to an object of the library.
struct Owned(Object, unsafe extern "C" fn(Object));

impl Owned {
    /// Takes over a reference; `None` for a null pointer.
    fn new(object: Object, unref: unsafe extern "C" fn(Object)) -> Option<Owned> {
        (!object.is_null()).then_some(Owned(object, unref))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference, which is not null, and releases it once, with the function for its type.
        unsafe { (self.1)(self.0) };
    }
}

fn load() -> Result<Functions, String> {
    let file = OsStr::new("libxkbcommon.so.0");
    let failed = |why: String| format!("can't open {}: {why}", file.to_string_lossy());
    // SAFETY: libxkbcommon's initialisers have no preconditions.
    let library = unsafe { openuvr_media::sys::open([file]) }.map_err(failed)?;
    // SAFETY: the functions have these types in every version of `libxkbcommon.so.0` that contains them.
    let functions = unsafe {
        (|| {
            Ok(Functions {
                context_new: *library.get(b"xkb_context_new")?,
                context_unref: *library.get(b"xkb_context_unref")?,
                context_set_log_level: *library.get(b"xkb_context_set_log_level")?,
                keymap_new: *library.get(b"xkb_keymap_new_from_buffer")?,
                keymap_of_names: *library.get(b"xkb_keymap_new_from_names")?,
                keymap_unref: *library.get(b"xkb_keymap_unref")?,
                key_get_name: *library.get(b"xkb_keymap_key_get_name")?,
                num_layouts: *library.get(b"xkb_keymap_num_layouts_for_key")?,
                num_levels: *library.get(b"xkb_keymap_num_levels_for_key")?,
                syms_by_level: *library.get(b"xkb_keymap_key_get_syms_by_level")?,
                mods_for_level: *library.get(b"xkb_keymap_key_get_mods_for_level")?,
                state_new: *library.get(b"xkb_state_new")?,
                state_unref: *library.get(b"xkb_state_unref")?,
                state_update_key: *library.get(b"xkb_state_update_key")?,
                state_serialize_mods: *library.get(b"xkb_state_serialize_mods")?,
                _library: library,
            })
        })()
    };
    functions.map_err(|cause: libloading::Error| failed(openuvr_media::sys::words(&cause)))
}
