//! Addresses as one can click them.

/// `127.0.0.1:8080/tcp` as `http://127.0.0.1:8080` where that is likely, else as it is.
pub(crate) fn link(address: &str) -> String {
    let Some((place, protocol)) = address.rsplit_once('/') else { return address.to_owned() };
    if protocol != "tcp" {
        return address.to_owned();
    }
    let port: u16 =
        place.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or_default();
    match port {
        443 | 8443 | 9443 => format!("https://{place}"),
        // What databases, brokers and shells use; the rest is tried in a browser.
        21 | 22 | 25 | 53 | 1433 | 1521 | 1883 | 2181 | 2379 | 2380 | 3306 | 5432 | 5672 | 6379
        | 9042 | 9092 | 11211 | 27017 => place.to_owned(),
        _ => format!("http://{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_likely_a_page_is_a_link() {
        for (address, wanted) in [
            ("127.0.0.1:8080/tcp", "http://127.0.0.1:8080"),
            ("h:443/tcp", "https://h:443"),
            ("h:5432/tcp", "h:5432"),
            ("h:53/udp", "h:53/udp"),
            ("strange", "strange"),
        ] {
            assert_eq!(link(address), wanted);
        }
    }
}
