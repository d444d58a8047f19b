//! A place in a trace, as it is told from process to process: `00-<trace>-<span>-<flags>`, by the
//! recommendation of the W3C.

use std::sync::Arc;

use persys_model::hex::digits;

/// Longest state that others keep in a trace and that is passed on.
const LONGEST_STATE: usize = 512;

/// Bytes of a place as it is told.
const LENGTH: usize = 55;

/// One span of one trace. Neither number is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// Whether it is written down.
    pub(super) is_sampled: bool,
    /// What others keep in it; passed on as it came.
    pub(super) state: Option<Arc<str>>,
}

impl Place {
    /// As it is told. Every order and every call carries it, so it is written without much ado.
    pub(super) fn written(&self) -> [u8; LENGTH] {
        let mut text = [b'-'; LENGTH];
        let trace = self.trace.to_be_bytes();
        let parts: [(usize, &[u8]); 4] = [
            (0, &[0]),
            (3, &trace),
            (36, &self.span.to_be_bytes()),
            (53, &[u8::from(self.is_sampled)]),
        ];
        for (from, bytes) in parts {
            for (place, digit) in text.iter_mut().skip(from).zip(digits(bytes)) {
                *place = digit;
            }
        }
        text
    }

    /// Reads a place. What a later version says after it is left out, as the recommendation has it.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut hex = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let plain = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            plain.then_some(part)
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let is_last = parts.next().is_none();
        if version == "ff" || version == "00" && !is_last {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace, span, is_sampled, state: None })
    }

    /// The same with what others keep in the trace, if it is something that can be passed on.
    pub(super) fn with_state(self, state: &str) -> Self {
        let is_member = |member: &str| {
            member.is_empty() || member.split_once('=').is_some_and(|(key, _)| !key.is_empty())
        };
        let good = !state.is_empty()
            && state.len() <= LONGEST_STATE
            && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            && state.split(',').map(str::trim).all(is_member);
        Self { state: good.then(|| Arc::from(state)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn told(text: &str) -> String {
        String::from_utf8(Place::read(text).unwrap().written().to_vec()).unwrap()
    }

    #[test]
    fn what_was_read_is_told_the_same_way() {
        assert!(Place::read(SAMPLED).unwrap().is_sampled);
        assert_eq!(told(SAMPLED), SAMPLED);
        let unsampled = SAMPLED.replace("-01", "-00");
        assert_eq!(told(&unsampled), unsampled);
        let later = format!("{}-more", SAMPLED.replacen("00-", "01-", 1));
        assert_eq!(told(&later), SAMPLED);
        let other_flags = SAMPLED.replace("-01", "-03");
        assert_eq!(told(&other_flags), SAMPLED);
        let small = "00-0000000000000000000000000000000a-000000000000000b-01";
        assert_eq!(told(small), small);
    }

    #[test]
    fn nonsense_is_no_place() {
        for bad in ["", "00", "00-0-0-01", "00-1-2-3", &SAMPLED.replacen("00-", "zz-", 1)] {
            assert_eq!(Place::read(bad), None, "{bad}");
        }
        for bad in [
            SAMPLED.to_uppercase(),
            SAMPLED.replacen("00-", "ff-", 1),
            format!("{SAMPLED}-more"),
            SAMPLED.replace("b7ad6b7169203331", "0000000000000000"),
            SAMPLED.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            SAMPLED.replace("b7ad6b7169203331", "+7ad6b7169203331"),
        ] {
            assert_eq!(Place::read(&bad), None, "{bad}");
        }
    }

    #[test]
    fn only_a_plain_state_is_passed_on() {
        let with = |state: &str| Place::read(SAMPLED).unwrap().with_state(state).state;
        for good in ["a=b", "a=b, c@d=e=f", "a=1,,b=2"] {
            assert_eq!(with(good).as_deref(), Some(good));
        }
        for bad in ["", "a", "=b", "a=b\n", "a=ä", &"a=b,".repeat(200)] {
            assert_eq!(with(bad), None, "{bad:?}");
        }
    }
}
