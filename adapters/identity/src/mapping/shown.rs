//! The names a certificate shows, as an operator would write them in the mapping.

use std::fmt;
use std::net::IpAddr;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

/// Names shown in one message.
const MOST_SHOWN: usize = 12;

/// Names found in a certificate. DNS names are in lower case; everything else is as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateNames {
    /// Common names of the subject.
    pub common_names: Vec<String>,
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Mail addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
}

impl CertificateNames {
    /// Reads the subject and the alternative names. What cannot be read as text matches nothing.
    pub(crate) fn of(parsed: &X509Certificate<'_>) -> Self {
        let common_names = parsed.subject().iter_common_name();
        let common_names = common_names.filter_map(|one| one.as_str().ok().map(str::to_owned));
        let mut names = Self { common_names: common_names.collect(), ..Self::default() };
        let Ok(Some(alternatives)) = parsed.subject_alternative_name() else { return names };
        for name in &alternatives.value.general_names {
            match name {
                GeneralName::DNSName(text) => names.dns.push(text.to_ascii_lowercase()),
                GeneralName::RFC822Name(text) => names.emails.push((*text).to_owned()),
                GeneralName::URI(text) => names.uris.push((*text).to_owned()),
                GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                GeneralName::OtherName(..)
                | GeneralName::X400Address(_)
                | GeneralName::DirectoryName(_)
                | GeneralName::EDIPartyName(_)
                | GeneralName::RegisteredID(_)
                | GeneralName::Invalid(..) => {}
            }
        }
        names
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    let address = four.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok())?;
    Some(address.to_canonical())
}

impl fmt::Display for CertificateNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { common_names, dns, addresses, emails, uris } = self;
        let mut all: Vec<String> = Vec::new();
        for (kind, texts) in [("cn", common_names), ("dns", dns), ("email", emails), ("uri", uris)]
        {
            // A certificate of somebody else may hold anything; a log line stays one line.
            all.extend(texts.iter().map(|text| format!("{kind}:{}", text.escape_debug())));
        }
        all.extend(addresses.iter().map(|address| format!("ip:{address}")));
        if all.is_empty() {
            return f.write_str("none");
        }
        let more = all.len().saturating_sub(MOST_SHOWN);
        all.truncate(MOST_SHOWN);
        f.write_str(&all.join(", "))?;
        if more > 0 { write!(f, ", and {more} more") } else { Ok(()) }
    }
}
