//! The C library's own `dlsym` and `dlvsym`, found in its symbol table in memory.
//!
//! This library exports functions of the same names, so a lookup through the linker would return this library's
//! functions. This module supports only the C library. It ignores symbol versions, because in the C library all
//! versions of these names behave the same.

#![allow(
    clippy::cast_possible_truncation,
    reason = "addresses on 64-bit machines: the tables are 64-bit ELF"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr;

/// An entry of the dynamic section (gABI 4.1, "Dynamic Section").
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

const DT_NULL: i64 = 0;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// Files of the C library: before glibc 2.34, `dlsym` was in the second one.
const FILES: [&[u8]; 2] = [b"libc.so.6", b"libdl.so.2"];

struct Query<'a> {
    name: &'a CStr,
    found: *mut c_void,
}

/// The address of the C library's function `name`, or null.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    let mut query = Query {
        name,
        found: ptr::null_mut(),
    };
    // SAFETY: the callback gets `query`, which outlives this call.
    unsafe { libc::dl_iterate_phdr(Some(visit), ptr::from_mut(&mut query).cast()) };
    query.found
}

/// Searches one loaded object; a nonzero result ends the iteration.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    query: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description, and `find` passes its `Query`.
    let (info, query) = unsafe { (&*info, &mut *query.cast::<Query<'_>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: null was excluded above, and the loader's names are zero-terminated strings.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next();
    if !file.is_some_and(|file| FILES.contains(&file)) {
        return 0;
    }
    // SAFETY: the object is loaded, and stays loaded during the callback.
    query.found = unsafe { look_up(info, query.name) }.unwrap_or(ptr::null_mut());
    c_int::from(!query.found.is_null())
}

/// # Safety
/// `info` must describe an object that is loaded and relocated.
unsafe fn look_up(info: &libc::dl_phdr_info, name: &CStr) -> Option<*mut c_void> {
    let base = info.dlpi_addr as usize;
    // SAFETY: `info` describes a loaded object, whose `dlpi_phnum` program headers start at `dlpi_phdr`.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let dynamic = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
    let mut entry = (base + dynamic.p_vaddr as usize) as *const Dynamic;
    let (mut strings, mut symbols, mut hash) = (0, 0, 0);
    // SAFETY: the section ends with DT_NULL. glibc has made its addresses absolute.
    while unsafe { (*entry).tag } != DT_NULL {
        // SAFETY: as above.
        let Dynamic { tag, value } = unsafe { &*entry };
        match *tag {
            DT_STRTAB => strings = *value,
            DT_SYMTAB => symbols = *value,
            DT_GNU_HASH => hash = *value,
            _ => {}
        }
        // SAFETY: this entry is not the last one.
        entry = unsafe { entry.add(1) };
    }
    if strings == 0 || symbols == 0 || hash == 0 {
        return None;
    }
    // SAFETY: the three tables belong to this object.
    unsafe {
        find_in_hash_table(
            base,
            strings,
            symbols as *const libc::Elf64_Sym,
            hash as *const u32,
            name,
        )
    }
}

/// A lookup in a GNU hash table: header, Bloom filter, buckets, chains.
///
/// # Safety
/// The tables must belong to the object at `base`.
unsafe fn find_in_hash_table(
    base: usize,
    strings: usize,
    symbols: *const libc::Elf64_Sym,
    hash: *const u32,
    name: &CStr,
) -> Option<*mut c_void> {
    // SAFETY: the table begins with a header of four 32-bit words. After it come the Bloom filter, in 64-bit words, and
    // the buckets, in 32-bit words. The table of chains has a 32-bit word for each symbol from `first` on. The chain of a
    // bucket ends with an odd word.
    unsafe {
        let (buckets, first, filter) = (*hash, *hash.add(1), *hash.add(2) as usize);
        if buckets == 0 {
            return None;
        }
        let bucket = hash.add(4 + filter * (size_of::<u64>() / size_of::<u32>()));
        let chain = bucket.add(buckets as usize);
        let target = gnu_hash(name.to_bytes());
        let mut index = *bucket.add((target % buckets) as usize);
        if index < first {
            return None;
        }
        loop {
            let link = *chain.add((index - first) as usize);
            let symbol = &*symbols.add(index as usize);
            let defined = symbol.st_shndx != 0 && symbol.st_value != 0;
            if link | 1 == target | 1 && defined {
                let known = (strings + symbol.st_name as usize) as *const c_char;
                if CStr::from_ptr(known) == name {
                    return Some((base + symbol.st_value as usize) as *mut c_void);
                }
            }
            if link & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }
}

/// Bernstein's hash, as the GNU tables use it.
fn gnu_hash(name: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
    name.iter().fold(5381, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_librarys_functions_are_found_as_by_the_linker() {
        for name in [c"getpid", c"qsort", c"dlopen"] {
            // SAFETY: `name` is a zero-terminated string, and the handle is predefined.
            let linked = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert_eq!(find(name), linked, "{name:?}");
        }
        assert!(find(c"no_such_function").is_null());
        // For these names, the linker finds this library's functions first.
        assert!(!find(c"dlsym").is_null() && !find(c"dlvsym").is_null());
    }
}
