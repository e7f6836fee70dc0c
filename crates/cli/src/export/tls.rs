//! TLS for `export --post https://...`, by rustls.
//!
//! How it works: the collector's certificate is checked against the authorities that this system
//! trusts (`SSL_CERT_FILE`, `SSL_CERT_DIR`, else the distribution's folders), or against the file
//! in OpenTelemetry's own variables. A client certificate is sent if they name one.
//!
//! What it promises: no connection without a check; an error in a file names the file's variable.
//! Missing on purpose: a way to turn the check off, proxies.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use otlp::http::Stream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The part that all connections for one signal share.
pub struct Tls(Arc<ClientConfig>);

/// A connection.
pub struct Secured(StreamOwned<ClientConnection, TcpStream>);

impl Tls {
    /// For `signal` (`TRACES`, `METRICS`), by `OTEL_EXPORTER_OTLP_[signal_]CERTIFICATE`,
    /// `..._CLIENT_CERTIFICATE`, `..._CLIENT_KEY`. Errors: one line.
    pub fn load(signal: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Tls, String> {
        let file = |what: &str| {
            let names = [
                format!("OTEL_EXPORTER_OTLP_{signal}_{what}"),
                format!("OTEL_EXPORTER_OTLP_{what}"),
            ];
            let set = |name: String| Some((environment(&name)?, name));
            names.into_iter().filter_map(set).find(|(path, _)| !path.trim().is_empty())
        };
        let roots = match file("CERTIFICATE") {
            Some((path, name)) => named_roots(&name, path.trim())?,
            None => system_roots()?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .with_root_certificates(roots);
        let config = match (file("CLIENT_CERTIFICATE"), file("CLIENT_KEY")) {
            (None, None) => builder.with_no_client_auth(),
            (Some((chain, name)), Some((key, key_name))) => {
                let chain = certificates(&name, chain.trim())?;
                let key = PrivateKeyDer::from_pem_file(key.trim())
                    .map_err(|error| unusable(&key_name, &key, &error, "a private key"))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| format!("{name}, {key_name}: {error}; wanted a pair"))?
            }
            (Some((_, name)), None) | (None, Some((_, name))) => {
                return Err(format!(
                    "{name}: found without its other half, wanted both CLIENT_CERTIFICATE and \
                     CLIENT_KEY, or none"
                ))
            }
        };
        Ok(Tls(Arc::new(config)))
    }

    /// TLS around a connection to `host`; the handshake is made with the first bytes sent.
    pub fn around(&self, host: &str, socket: TcpStream) -> io::Result<Secured> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        Ok(Secured(StreamOwned::new(connection, socket)))
    }
}

fn unusable(name: &str, path: &str, error: &dyn std::fmt::Display, wanted: &str) -> String {
    format!("{name}: found {path:?} ({error}), wanted a PEM file with {wanted}")
}

/// All certificates of a file; at least one.
fn certificates(name: &str, path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let wanted = "certificates";
    let all = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(name, path, &error, wanted))?;
    match all.is_empty() {
        true => Err(unusable(name, path, &"there is none in it", wanted)),
        false => Ok(all),
    }
}

fn named_roots(name: &str, path: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for one in certificates(name, path)? {
        roots.add(one).map_err(|error| unusable(name, path, &error, "certificates"))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    // Unreadable certificates do not matter while others can be read.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => Err("TLS: found no certificates of authorities on this system, wanted some (the \
                     package ca-certificates, SSL_CERT_FILE, or OTEL_EXPORTER_OTLP_CERTIFICATE)"
            .to_owned()),
        false => Ok(roots),
    }
}

impl Secured {
    /// The peer's message before it closed (that it wants a certificate) can still be read, though
    /// nothing can be sent any more. `closed`, if there is none.
    fn last_words(&mut self, into: &mut [u8], closed: io::Error) -> io::Result<usize> {
        let StreamOwned { conn, sock } = &mut self.0;
        while conn.wants_read() && conn.read_tls(sock).is_ok_and(|count| count > 0) {
            conn.process_new_packets().map_err(io::Error::other)?;
            match conn.reader().read(into) {
                Ok(count) if count > 0 => return Ok(count),
                _ => (),
            }
        }
        Err(closed)
    }
}

impl Read for Secured {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self.0.read(into) {
            Err(closed) if matches!(closed.kind(), BrokenPipe | ConnectionReset) => {
                self.last_words(into, closed)
            }
            read => read,
        }
    }
}

impl Write for Secured {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stream for Secured {
    fn socket(&self) -> &TcpStream {
        &self.0.sock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_files_are_reported_with_their_variable() {
        let with = |pairs: &[(&str, &str)], signal: &str| {
            let get = |name: &str| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            Tls::load(signal, get).map(|_| ()).expect_err("nothing that could be used")
        };
        let error = with(&[("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such.pem")], "TRACES");
        assert!(
            error.starts_with("OTEL_EXPORTER_OTLP_CERTIFICATE: found \"/no/such.pem\""),
            "{error}"
        );
        let own = ("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "/dev/null");
        let error = with(&[("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such.pem"), own], "METRICS");
        assert!(error.starts_with(own.0) && error.contains("there is none in it"), "{error}");
    }
}
