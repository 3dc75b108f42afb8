//! Where the database is and how to get in: the words, variables and files that the
//! users of libpq know, and TLS.
//!
//! A word of `--db` comes before a service, a service before a variable, and a variable
//! before a default. A word that would make a connection safer and that this program
//! does not know is refused.

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_name, WebPkiServerVerifier};
use rustls::crypto::{ring, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The variables of libpq, and the words for which they stand.
const VARIABLES: [(&str, &str); 25] = [
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGPORT", "port"),
    ("PGDATABASE", "dbname"),
    ("PGUSER", "user"),
    ("PGPASSWORD", "password"),
    ("PGPASSFILE", "passfile"),
    ("PGOPTIONS", "options"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLSNI", "sslsni"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
];

/// Where Debian's servers have their sockets.
const SOCKETS: &str = "/run/postgresql";

type Words = BTreeMap<String, String>;

/// Where the database is, who calls, and what makes a connection safe.
#[derive(Clone)]
pub struct Config {
    /// One for each host, in the order in which they are tried.
    places: Vec<tokio_postgres::Config>,
    /// How long a host may take to let a user in.
    pub patience: Option<Duration>,
    pub tls: MakeRustlsConnect,
    /// Has the password, unless it was given.
    passfile: Option<PathBuf>,
}

impl Config {
    /// From the text on the command line, the environment and the files of the user.
    pub fn new(text: &str) -> Result<Config, String> {
        Config::of(text, &|name| std::env::var(name).ok())
    }

    fn of(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Config, String> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from);
        let mut words = words(text)?;
        if let Some(name) = words.remove("service").or_else(|| variable("PGSERVICE")) {
            for (word, value) in service(&name, home.as_deref(), &variable)? {
                words.entry(word).or_insert(value);
            }
        }
        for (name, word) in VARIABLES {
            if let (false, Some(value)) = (words.contains_key(word), variable(name)) {
                words.insert(word.to_owned(), value);
            }
        }
        defaults(&mut words)?;
        let passfile = take(&mut words, "passfile")
            .map(PathBuf::from)
            .or_else(|| Some(home.as_deref()?.join(".pgpass")));
        let directory = home.map(|home| home.join(".postgresql"));
        let (mode, tls) = tls(&mut words, directory.as_deref())?;
        refuse_what_is_not_supported(&mut words)?;

        // A mistake anywhere is named before each host has its words.
        let patience = parse(&words)?.get_connect_timeout().copied();
        let mut places = Vec::new();
        for words in each_host(&words)? {
            let mut config = parse(&words)?;
            config.ssl_mode(mode);
            config.connect_timeout(patience.unwrap_or(Duration::from_secs(5)));
            // A connection that leads nowhere ends within seconds.
            config.keepalives_idle(Duration::from_secs(5));
            config.keepalives_interval(Duration::from_secs(2));
            config.keepalives_retries(3);
            config.tcp_user_timeout(Duration::from_secs(10));
            places.push(config);
        }
        Ok(Config {
            places,
            patience,
            tls: MakeRustlsConnect::new(tls),
            passfile,
        })
    }

    /// For one connection: a configuration for each host, with a name, and with the password that
    /// the file has now.
    pub fn named(&self, name: &str) -> Vec<tokio_postgres::Config> {
        let mut places = self.places.clone();
        for config in &mut places {
            config.application_name(name);
            if config.get_password().is_none() {
                let password = self
                    .passfile
                    .as_deref()
                    .and_then(|file| password(file, config));
                if let Some(password) = password {
                    config.password(password);
                }
            }
        }
        let is_random = |config: &tokio_postgres::Config| {
            config.get_load_balance_hosts() == LoadBalanceHosts::Random
        };
        if places.first().is_some_and(is_random) {
            let mut seed = [0; 8];
            getrandom::fill(&mut seed).expect("the system has random numbers");
            let mut seed = u64::from_ne_bytes(seed) >> 8;
            for n in (1..places.len()).rev() {
                places.swap(n, (seed % (n as u64 + 1)) as usize);
                seed /= n as u64 + 1;
            }
        }
        places
    }

    /// A node writes. Among several servers it looks for one that lets it.
    pub fn for_writes(mut self) -> Config {
        if self.places.len() > 1 {
            for place in &mut self.places {
                if place.get_target_session_attrs() == TargetSessionAttrs::Any {
                    place.target_session_attrs(TargetSessionAttrs::ReadWrite);
                }
            }
        }
        self
    }
}

/// The words for each of the hosts.
fn each_host(words: &Words) -> Result<Vec<Words>, String> {
    let list = |word: &str| -> Vec<&str> {
        let text = words.get(word).map(String::as_str);
        text.map_or(Vec::new(), |text| text.split(',').collect())
    };
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    if !addresses.is_empty() && addresses.len() != hosts.len() {
        return Err(format!(
            "there are {} of \"host\" and {} of \"hostaddr\"",
            hosts.len(),
            addresses.len()
        ));
    }
    if ports.len() > 1 && ports.len() != hosts.len() {
        return Err(format!(
            "there are {} of \"host\" and {} of \"port\"",
            hosts.len(),
            ports.len()
        ));
    }
    Ok((0..hosts.len())
        .map(|n| {
            let mut one = words.clone();
            let lists = [("host", &hosts), ("hostaddr", &addresses), ("port", &ports)];
            for (word, list) in lists {
                if let Some(value) = list.get(n).or(list.last()) {
                    one.insert(word.to_owned(), (*value).to_owned());
                }
            }
            one
        })
        .collect())
}

fn take(words: &mut Words, word: &str) -> Option<String> {
    words.remove(word).filter(|value| !value.is_empty())
}

// Words.

/// Both forms: `host=... dbname=...`, and a URL.
fn words(text: &str) -> Result<Words, String> {
    let text = text.trim();
    let url = text
        .strip_prefix("postgresql://")
        .or_else(|| text.strip_prefix("postgres://"));
    match url {
        Some(rest) => words_of_url(rest),
        None => words_of_pairs(text),
    }
}

/// Messages name no value: it may be a password, or a part of one.
fn words_of_pairs(text: &str) -> Result<Words, String> {
    let mut words = Words::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest
            .split_once('=')
            .ok_or("a word without \"=\"; a value with spaces needs quotes")?;
        let word = word.trim();
        if word.is_empty() || !word.chars().all(|c| c.is_ascii_alphabetic() || c == '_') {
            return Err("a value with spaces needs quotes, as in password='a b'".to_owned());
        }
        let after = after.trim_start();
        let is_quoted = after.starts_with('\'');
        let mut value = String::new();
        let mut is_closed = false;
        let mut characters = after.char_indices().skip(usize::from(is_quoted)).peekable();
        while let Some((_, c)) = characters.peek().copied() {
            if !is_quoted && c.is_whitespace() {
                break;
            }
            characters.next();
            match c {
                '\'' if is_quoted => {
                    is_closed = true;
                    break;
                }
                '\\' => value.extend(characters.next().map(|(_, c)| c)),
                c => value.push(c),
            }
        }
        if is_quoted && !is_closed {
            return Err(format!("the quote of \"{word}\" does not end"));
        }
        let end = characters.peek().map_or(after.len(), |(at, _)| *at);
        words.insert(word.to_owned(), value);
        rest = after[end..].trim_start();
    }
    Ok(words)
}

fn words_of_url(rest: &str) -> Result<Words, String> {
    let decode = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded
            .map(|text| text.into_owned())
            .map_err(|_| "the URL is not UTF-8".to_owned())
    };
    let mut words = Words::new();
    let (main, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, name) = main.split_once('/').unwrap_or((main, ""));
    let (who, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = who.split_once(':').unwrap_or((who, ""));
    let mut add = |word: &str, value: String| {
        if !value.is_empty() {
            words.insert(word.to_owned(), value);
        }
    };
    add("user", decode(user)?);
    add("password", decode(password)?);
    add("dbname", decode(name)?);
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for host in hosts.split(',') {
        // An address of IPv6 has colons, and stands in brackets.
        let (name, port) = match host.strip_prefix('[').and_then(|h| h.split_once(']')) {
            Some((name, port)) => (name, port.strip_prefix(':').unwrap_or(port)),
            None => host.split_once(':').unwrap_or((host, "")),
        };
        names.push(decode(name)?);
        ports.push(decode(port)?);
    }
    let list = |items: &[String]| {
        let is_empty = items.iter().all(String::is_empty);
        if is_empty {
            String::new()
        } else {
            items.join(",")
        }
    };
    add("host", list(&names));
    add("port", list(&ports));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (word, value) = pair
            .split_once('=')
            .ok_or("a parameter of the URL has no \"=\"")?;
        match (decode(word)?.as_str(), decode(value)?) {
            ("ssl", value) if value == "true" => add("sslmode", "require".to_owned()),
            (word, value) => add(word, value),
        }
    }
    Ok(words)
}

/// The words of a service, from the user's file or the system's.
fn service(
    name: &str,
    home: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Words, String> {
    let own = variable("PGSERVICEFILE")
        .map(PathBuf::from)
        .or_else(|| Some(home?.join(".pg_service.conf")));
    let directory = variable("PGSYSCONFDIR").unwrap_or("/etc/postgresql-common".to_owned());
    let system = Path::new(&directory).join("pg_service.conf");
    for file in own.into_iter().chain([system]) {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let lines = text.lines().map(str::trim);
        let section: Vec<&str> = lines
            .skip_while(|line| *line != format!("[{name}]"))
            .collect();
        if section.is_empty() {
            continue;
        }
        let pairs = section[1..]
            .iter()
            .take_while(|line| !line.starts_with('['))
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('='));
        return Ok(pairs
            .map(|(word, value)| (word.trim().to_owned(), value.trim().to_owned()))
            .collect());
    }
    Err(format!("there is no service \"{name}\""))
}

/// The defaults of libpq, which also decide what stands for what in the password file.
fn defaults(words: &mut Words) -> Result<(), String> {
    words.retain(|_, value| !value.is_empty());
    if !words.contains_key("host") {
        let host = match words.get("hostaddr") {
            Some(address) => address.clone(),
            None if Path::new(SOCKETS).is_dir() => SOCKETS.to_owned(),
            None => "localhost".to_owned(),
        };
        words.insert("host".to_owned(), host);
    }
    if !words.contains_key("user") {
        let name = whoami::username().map_err(|e| format!("this user has no name: {e}"))?;
        words.insert("user".to_owned(), name);
    }
    let user = words["user"].clone();
    words.entry("dbname".to_owned()).or_insert(user);
    Ok(())
}

/// Words that may make a connection safer must not be without effect.
fn refuse_what_is_not_supported(words: &mut Words) -> Result<(), String> {
    for (word, harmless) in [
        ("gssencmode", &["disable", "prefer"][..]),
        ("require_auth", &[]),
        ("requirepeer", &[]),
        ("sslcrldir", &[]),
        ("replication", &["false", "off", "0"]),
    ] {
        if let Some(value) = take(words, word) {
            if !harmless.contains(&value.as_str()) {
                return Err(format!("{word} is not supported"));
            }
        }
    }
    for word in [
        "krbsrvname",
        "gsslib",
        "gssdelegation",
        "sslcompression",
        "client_encoding",
        "application_name",
        "fallback_application_name",
    ] {
        words.remove(word);
    }
    for (from, to) in [("keepalives_count", "keepalives_retries")] {
        if let Some(value) = words.remove(from) {
            words.insert(to.to_owned(), value);
        }
    }
    if words.get("target_session_attrs").map(String::as_str) == Some("primary") {
        words.insert("target_session_attrs".to_owned(), "read-write".to_owned());
    }
    Ok(())
}

fn parse(words: &Words) -> Result<tokio_postgres::Config, String> {
    let pair = |(word, value): (&String, &String)| {
        let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
        format!("{word}='{quoted}'")
    };
    let all: Vec<String> = words.iter().map(pair).collect();
    let mut config: tokio_postgres::Config = all.join(" ").parse().map_err(|_| {
        // The library's messages may quote a password. One of the words is wrong.
        let is_wrong =
            |(_, text): &(&String, &String)| text.parse::<tokio_postgres::Config>().is_err();
        let wrong = words.keys().zip(&all).find(is_wrong);
        let word = wrong.map_or("host", |(word, _)| word);
        format!("\"{word}\" is no word for a connection, or has a wrong value")
    })?;
    if let Some(password) = words.get("password") {
        config.password(password);
    }
    Ok(config)
}

// Passwords.

/// The password of the first line that matches: `host:port:database:user:password`.
fn password(file: &Path, config: &tokio_postgres::Config) -> Option<String> {
    use tokio_postgres::config::Host;
    let about = fs::metadata(file).ok()?;
    if about.mode() & 0o077 != 0 {
        log::warn!(
            "the password file {} is not used: others than its owner may read it",
            file.display()
        );
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let (user, name) = (config.get_user()?, config.get_dbname()?);
    let ports = config.get_ports();
    config.get_hosts().iter().enumerate().find_map(|(n, host)| {
        let host = match host {
            Host::Unix(path) if path == Path::new(SOCKETS) => "localhost".to_owned(),
            Host::Unix(path) => path.display().to_string(),
            Host::Tcp(name) => name.clone(),
        };
        let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
        let wanted = [host.as_str(), &port.to_string(), name, user];
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .find_map(|line| {
                let fields = fields(line);
                let is_match = fields.len() == 5
                    && wanted
                        .iter()
                        .zip(&fields)
                        .all(|(wanted, field)| field == "*" || field == wanted);
                is_match.then(|| fields[4].clone())
            })
    })
}

/// The fields of a line of the password file. A backslash takes the next character as
/// it is.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut().expect("one").extend(characters.next()),
            c => fields.last_mut().expect("one").push(c),
        }
    }
    fields
}

// TLS.

/// Whether TLS is used, and how. Takes the words that it knows.
fn tls(words: &mut Words, directory: Option<&Path>) -> Result<(SslMode, ClientConfig), String> {
    let default = |name: &str| {
        let file = directory?.join(name);
        file.exists().then_some(file)
    };
    let is_system = words.get("sslrootcert").map(String::as_str) == Some("system");
    let roots = take(words, "sslrootcert")
        .map(PathBuf::from)
        .or_else(|| default("root.crt"));
    let mode = take(words, "sslmode")
        .unwrap_or(if is_system { "verify-full" } else { "prefer" }.to_owned());
    let is_local = words["host"].split(',').all(|host| host.starts_with('/'));
    let (mut mode, verify) = match mode.as_str() {
        "disable" => (SslMode::Disable, None),
        "allow" | "prefer" => (SslMode::Prefer, None),
        // As libpq does, if there are authorities.
        "require" => (SslMode::Require, roots.is_some().then_some("verify-ca")),
        "verify-ca" | "verify-full" => (SslMode::Require, Some(mode.as_str())),
        _ => {
            return Err(
                "sslmode is not disable, allow, prefer, require, verify-ca or verify-full"
                    .to_owned(),
            )
        }
    };
    if is_system && mode != SslMode::Disable && verify != Some("verify-full") {
        return Err("sslrootcert=system needs sslmode=verify-full".to_owned());
    }
    // A socket of this machine has no TLS, whatever the mode says.
    if is_local {
        mode = SslMode::Disable;
    }

    let crl = take(words, "sslcrl")
        .map(PathBuf::from)
        .or_else(|| default("root.crl"));
    let (cert, key) = (take(words, "sslcert"), take(words, "sslkey"));
    let cert = cert
        .map(PathBuf::from)
        .or_else(|| default("postgresql.crt"));
    let key = key.map(PathBuf::from).or_else(|| default("postgresql.key"));
    let has_sni = take(words, "sslsni").as_deref() != Some("0");
    if take(words, "sslpassword").is_some() {
        return Err("sslpassword is not supported: the key must not be encrypted".to_owned());
    }
    let least = take(words, "ssl_min_protocol_version");
    let most = take(words, "ssl_max_protocol_version");
    let mut versions: Vec<&rustls::SupportedProtocolVersion> = rustls::ALL_VERSIONS.to_vec();
    if least.as_deref() == Some("TLSv1.3") {
        versions.retain(|version| version.version == rustls::ProtocolVersion::TLSv1_3);
    }
    match most.as_deref() {
        None | Some("TLSv1.3") => {}
        Some("TLSv1.2") => {
            versions.retain(|version| version.version == rustls::ProtocolVersion::TLSv1_2);
        }
        Some(_) => return Err("ssl_max_protocol_version is below TLSv1.2".to_owned()),
    }

    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(
        provider.clone(),
        verify.filter(|_| mode != SslMode::Disable),
        roots.filter(|_| !is_system),
        crl,
        is_system,
    )?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|_| "no version of TLS is left".to_owned())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match (cert, key) {
        _ if mode == SslMode::Disable => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = certificates(&cert)?;
            let about = fs::metadata(&key).map_err(|e| failed("sslkey", &key, &e))?;
            if about.mode() & 0o077 != 0 && !(about.uid() == 0 && about.mode() & 0o037 == 0) {
                return Err(format!(
                    "sslkey: others than its owner may read {}",
                    key.display()
                ));
            }
            let private =
                PrivateKeyDer::from_pem_file(&key).map_err(|e| failed("sslkey", &key, &e))?;
            let config = builder.with_client_auth_cert(chain, private);
            config.map_err(|e| failed("sslkey", &key, &e))?
        }
        (Some(cert), None) => return Err(format!("{} has no sslkey", cert.display())),
        (None, _) => builder.with_no_client_auth(),
    };
    config.enable_sni = has_sni;
    if words.get("sslnegotiation").map(String::as_str) == Some("direct") {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
    }
    Ok((mode, config))
}

fn failed(what: &str, file: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{what}: {}: {why}", file.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| failed("certificates", file, &e))?;
    match certificates.is_empty() {
        true => Err(failed("certificates", file, &"there is none in it")),
        false => Ok(certificates),
    }
}

/// Certificates of the system. SSL_CERT_FILE and SSL_CERT_DIR name others.
pub fn system_authorities() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    match found.errors.first() {
        Some(e) if found.certs.is_empty() => Err(format!("authorities of the system: {e}")),
        _ if found.certs.is_empty() => Err(
            "the system has no authorities; on Debian: apt-get install ca-certificates".to_owned(),
        ),
        _ => Ok(found.certs),
    }
}

/// Looks at the certificate of the server as sslmode says.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` accepts any certificate.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    has_name: bool,
}

impl Verifier {
    fn new(
        provider: Arc<CryptoProvider>,
        verify: Option<&str>,
        file: Option<PathBuf>,
        crl: Option<PathBuf>,
        is_system: bool,
    ) -> Result<Verifier, String> {
        let Some(mode) = verify else {
            return Ok(Verifier {
                provider,
                authorities: None,
                trusted: Vec::new(),
                has_name: false,
            });
        };
        let trusted = match file {
            _ if is_system => system_authorities()?,
            Some(file) => certificates(&file)?,
            None => {
                return Err(format!(
                    "sslmode={mode} needs sslrootcert: a file with authorities, or system"
                ))
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let mut builder =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        if let Some(file) = crl {
            let lists = CertificateRevocationListDer::pem_file_iter(&file)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|e| failed("sslcrl", &file, &e))?;
            builder = builder.with_crls(lists);
        }
        let authorities = builder.build().map_err(|e| format!("sslrootcert: {e}"))?;
        Ok(Verifier {
            provider,
            authorities: Some(authorities),
            trusted,
            has_name: mode == "verify-full",
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext, Other};
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        let answer = authorities.verify_server_cert(certificate, intermediates, name, ocsp, now);
        let Err(rustls::Error::InvalidCertificate(why)) = &answer else {
            return answer;
        };
        match why {
            // The name is looked at last.
            NotValidForName | NotValidForNameContext { .. } if !self.has_name => {}
            // A server that signed its own certificate, as in PostgreSQL's manual: an
            // authority that is a server too. The file has exactly this one.
            Other(e) if is_own_authority(e) && self.trusted.contains(certificate) => {
                if self.has_name {
                    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                }
            }
            _ => return answer,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The dates of the certificate have been looked at before.
fn is_own_authority(error: &rustls::OtherError) -> bool {
    error.0.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use tokio_postgres::config::Host;

    fn config(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::of(text, &variable)
    }

    fn why(text: &str, variables: &[(&str, &str)]) -> String {
        config(text, variables)
            .err()
            .unwrap_or_else(|| panic!("{text} is accepted"))
    }

    /// host, port, database, user, password
    fn summary(config: &Config) -> String {
        let places = config.named("test");
        let hosts: Vec<String> = places
            .iter()
            .flat_map(tokio_postgres::Config::get_hosts)
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let ports: Vec<u16> = places.iter().flat_map(|p| p.get_ports().to_vec()).collect();
        let config = &places[0];
        let password = String::from_utf8_lossy(config.get_password().unwrap_or(b"-")).into_owned();
        format!(
            "{} {:?} {} {} {password}",
            hosts.join(","),
            ports,
            config.get_dbname().unwrap(),
            config.get_user().unwrap()
        )
    }

    #[test]
    fn words_come_before_variables_and_both_forms_mean_the_same() {
        let variables = [
            ("PGHOST", "db.example"),
            ("PGPORT", "6000"),
            ("PGUSER", "app"),
            ("PGPASSWORD", "from the environment"),
        ];
        for (text, expected) in [
            ("", "db.example [6000] app app from the environment"),
            (
                "dbname=shop",
                "db.example [6000] shop app from the environment",
            ),
            ("host=a port=1 user=u dbname=d password=p", "a [1] d u p"),
            (
                "  host = 'a'  port='1' user=u password='it\\'s \\\\ here' ",
                "a [1] u u it's \\ here",
            ),
            ("postgresql://u:p%20%40q@a:1/d", "a [1] d u p @q"),
            (
                "postgres://u@a:1,b:2/d?password=x%26y",
                "a,b [1, 2] d u x&y",
            ),
            (
                "postgresql://%2Frun%2Fpg/d?user=u",
                "/run/pg [6000] d u from the environment",
            ),
            (
                "postgresql:///d?host=a&port=7&user=u",
                "a [7] d u from the environment",
            ),
            ("postgresql://u:p@[::1]:5433/d", "::1 [5433] d u p"),
        ] {
            let config = config(text, &variables).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(summary(&config), expected, "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named_without_a_part_of_the_password() {
        for (text, expected) in [
            ("host", "a word without \"=\""),
            ("host=a password=top secret words", "needs quotes"),
            ("password=top secret words=1", "needs quotes"),
            (
                "password='top secret",
                "the quote of \"password\" does not end",
            ),
            (
                "host=a port=x password=secret",
                "\"port\" is no word for a connection, or has a wrong value",
            ),
            (
                "host=a colour=secret",
                "\"colour\" is no word for a connection",
            ),
            ("postgresql://u:secret@a:x/d", "\"port\" is no word"),
            (
                "postgresql://u:secret@a/d?x",
                "a parameter of the URL has no \"=\"",
            ),
            ("host=a sslmode=secret", "sslmode is not disable,"),
            (
                "service=none password=secret",
                "there is no service \"none\"",
            ),
        ] {
            let why = why(text, &[("HOME", "/nowhere")]);
            assert!(why.contains(expected), "{text}: {why}");
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn what_would_be_safer_and_is_not_known_is_refused() {
        for (text, variable, expected) in [
            (
                "host=a gssencmode=require",
                "",
                "gssencmode is not supported",
            ),
            ("host=a", "PGREQUIREAUTH", "require_auth is not supported"),
            ("host=a", "PGREQUIREPEER", "requirepeer is not supported"),
            ("host=a sslcrldir=/x", "", "sslcrldir is not supported"),
            ("host=a sslmode=verify-full", "", "needs sslrootcert"),
            (
                "host=a sslmode=verify-ca sslrootcert=/nowhere",
                "",
                "/nowhere",
            ),
            (
                "host=a sslmode=require sslrootcert=system",
                "",
                "needs sslmode=verify-full",
            ),
            ("host=a sslcert=/nowhere", "", "has no sslkey"),
            ("host=a sslcert=/nowhere sslkey=/nowhere", "", "/nowhere"),
            (
                "host=a ssl_max_protocol_version=TLSv1.1",
                "",
                "below TLSv1.2",
            ),
        ] {
            let why = why(text, &[(variable, "x")]);
            assert!(why.contains(expected), "{text}: {why}");
        }
        // A socket of this machine needs no certificate.
        assert!(config("host=/tmp sslmode=verify-full", &[]).is_ok());
        assert!(config(
            "host=a gssencmode=prefer keepalives_count=3 fallback_application_name=x",
            &[]
        )
        .is_ok());
    }

    #[test]
    fn the_password_file_has_the_password_now() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pass");
        let file_name = file.to_str().unwrap();
        let write = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        write(
            "# a:*:*:*:no\na:1:d:other:no\na:1:d:u:it\\:s \\\\ here\n*:*:*:u:else\nlocalhost:5432:*:s:socket\n",
            0o600,
        );
        let seen = |text: &str| {
            let config = config(text, &[("PGPASSFILE", file_name)]).unwrap();
            summary(&config).rsplit("u ").next().unwrap().to_owned()
        };
        assert_eq!(seen("host=a port=1 dbname=d user=u"), "it:s \\ here");
        assert_eq!(seen("host=b port=1 dbname=d user=u"), "else");
        assert_eq!(
            seen("host=b port=1 dbname=d user=u password=given"),
            "given"
        );
        let socket = format!("host={SOCKETS} user=s dbname=u passfile={file_name}");
        assert_eq!(
            summary(&config(&socket, &[]).unwrap()),
            format!("{SOCKETS} [] u s socket")
        );

        let same = config("host=b user=u", &[("PGPASSFILE", file_name)]).unwrap();
        write("*:*:*:*:new", 0o600);
        assert_eq!(summary(&same), "b [] u u new");
        write("*:*:*:*:open", 0o644);
        assert_eq!(summary(&same), "b [] u u -");
    }

    #[test]
    fn a_service_comes_before_variables() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".pg_service.conf");
        fs::write(
            &file,
            "[other]\nhost=x\n\n[shop]\n# c\nhost=a\nport = 7\nuser=u\n[third]\nport=1\n",
        )
        .unwrap();
        let home = dir.path().to_str().unwrap();
        let variables = [
            ("HOME", home),
            ("PGSERVICE", "shop"),
            ("PGHOST", "y"),
            ("PGPASSWORD", "p"),
        ];
        assert_eq!(
            summary(&config("port=8", &variables).unwrap()),
            "a [8] u u p"
        );
        assert_eq!(
            summary(&config("service=third user=v", &variables).unwrap()),
            "y [1] v v p"
        );
    }
}
