//! Amounts as people write them.

/// `0.5`, `2`, `500m` as thousandths of a core.
pub fn cpu(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no amount of CPU; write 0.5, 2 or 500m");
    let thousandths = match text.strip_suffix('m') {
        Some(number) => whole(number),
        None => decimal(text, 1000, 3),
    };
    thousandths.filter(|number| *number > 0).ok_or_else(wrong)
}

/// `512m`, `1g`, `1.5GiB`, `300` (MiB) as MiB.
pub fn memory(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no amount of memory; write 512m, 1g or 300 (MiB)");
    let (number, unit) = number_and_unit(text);
    let scale = match unit.as_str() {
        "" | "m" | "mb" | "mi" | "mib" => 1,
        "g" | "gb" | "gi" | "gib" => 1024,
        "t" | "tb" | "ti" | "tib" => 1024 * 1024,
        _ => return Err(wrong()),
    };
    decimal(number, scale, 3).filter(|number| *number > 0).ok_or_else(wrong)
}

/// `10g`, `1t`, `20` (GiB) as GiB.
pub fn disk(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no amount of disk; write 10g, 1t or 20 (GiB)");
    let (number, unit) = number_and_unit(text);
    let scale = match unit.as_str() {
        "" | "g" | "gb" | "gi" | "gib" => 1,
        "t" | "tb" | "ti" | "tib" => 1024,
        _ => return Err(wrong()),
    };
    decimal(number, scale, 3).filter(|number| *number > 0).ok_or_else(wrong)
}

fn number_and_unit(text: &str) -> (&str, String) {
    let digits = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    (number, unit.to_ascii_lowercase())
}

fn whole(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

/// `1.5` times `scale`, exactly or not at all. At most `places` digits behind the point.
fn decimal(text: &str, scale: i64, places: u32) -> Option<i64> {
    let (front, behind) = text.split_once('.').unwrap_or((text, ""));
    let digits = u32::try_from(behind.len()).ok()?;
    if digits > places || (text.contains('.') && behind.is_empty()) {
        return None;
    }
    let front = whole(front)?.checked_mul(scale)?;
    let part = if behind.is_empty() { 0 } else { whole(behind)? };
    let power = 10_i64.checked_pow(digits)?;
    let part = part.checked_mul(scale)?;
    (part % power == 0).then(|| front.checked_add(part / power)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_or_refused() {
        for (text, wanted) in [("0.5", 500), ("2", 2000), ("500m", 500), ("0.001", 1)] {
            assert_eq!(cpu(text), Ok(wanted), "{text}");
        }
        for text in ["", "0", "-1", "half", "0.0001", "1.", ".5", "m", "1e3", "9999999999999999999"]
        {
            assert!(cpu(text).is_err(), "{text}");
        }
        for (text, wanted) in [("512m", 512), ("1g", 1024), ("1.5GiB", 1536), ("300", 300)] {
            assert_eq!(memory(text), Ok(wanted), "{text}");
        }
        for text in ["512k", "lots", "0", "1.0001m", "g"] {
            assert!(memory(text).is_err(), "{text}");
        }
        assert_eq!(disk("10g"), Ok(10));
        assert_eq!(disk("2t"), Ok(2048));
        assert_eq!(disk("20"), Ok(20));
        assert!(disk("500m").is_err());
    }
}
