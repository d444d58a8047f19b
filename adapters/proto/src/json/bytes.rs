//! The few rules of the binary form.

/// One field as it stands in the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raw<'a> {
    Number(u64),
    Eight(u64),
    Bytes(&'a [u8]),
}

pub(super) const NUMBER: u64 = 0;
pub(super) const EIGHT: u64 = 1;
pub(super) const BYTES: u64 = 2;

/// Adds a number in groups of seven bits.
pub(super) fn put_number(to: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

/// Adds what says which field follows, and how it stands there.
pub(super) fn put_key(to: &mut Vec<u8>, field: i32, kind: u64) {
    let field = u64::try_from(field).unwrap_or_default();
    put_number(to, (field << 3) | kind);
}

/// Adds a field of bytes.
pub(super) fn put_bytes(to: &mut Vec<u8>, field: i32, bytes: &[u8]) {
    put_key(to, field, BYTES);
    put_number(to, u64::try_from(bytes.len()).unwrap_or_default());
    to.extend_from_slice(bytes);
}

/// Takes a number from the front.
pub(super) fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes a field from the front: its number and what it holds.
pub(super) fn take_field<'a>(from: &mut &'a [u8]) -> Option<(u64, Raw<'a>)> {
    let key = take_number(from)?;
    let raw = match key & 7 {
        NUMBER => Raw::Number(take_number(from)?),
        EIGHT => {
            let (eight, rest) = from.split_first_chunk::<8>()?;
            *from = rest;
            Raw::Eight(u64::from_le_bytes(*eight))
        }
        BYTES => {
            let length = usize::try_from(take_number(from)?).ok()?;
            let (bytes, rest) = from.split_at_checked(length)?;
            *from = rest;
            Raw::Bytes(bytes)
        }
        _ => return None,
    };
    Some((key >> 3, raw))
}
