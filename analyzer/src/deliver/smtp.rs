//! Handing mail to a server, and what its answer means.

use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};

use super::outbox::Outcome;
use super::target::{MailServer, Security};

/// How long one step of the conversation may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long a mail may take, connecting included.
const WHOLE: Duration = Duration::from_secs(60);
/// How much of an answer is kept.
const SHOWN: usize = 200;
/// Answers that are about who logs in, and not about the mail (RFC 4954, section 6).
const OF_LOGIN: [&str; 4] = ["530", "534", "535", "538"];

/// A way to the server. It connects for each mail.
pub struct Sender(AsyncSmtpTransport<Tokio1Executor>);

impl Sender {
    /// Reads the password and the certificates; an error names the file.
    pub fn new(server: &MailServer) -> Result<Self, String> {
        let tls = if server.insecure { Tls::None } else { encrypted(server)? };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server.host)
            .port(server.port)
            .tls(tls)
            .timeout(Some(TIMEOUT));
        if let (Some(username), Some(file)) = (&server.username, &server.password_file) {
            let password = read(file)?;
            let password = String::from_utf8(password).map_err(|_| format!("{}: expected UTF-8", file.display()))?;
            builder = builder.credentials(Credentials::new(username.clone(), password.trim_end().to_owned()));
        }
        Ok(Self(builder.build()))
    }

    /// Hands a mail over.
    pub async fn send(&self, mail: &Mail) -> Outcome {
        let bytes = mail.formatted();
        match tokio::time::timeout(WHOLE, self.0.send_raw(mail.envelope(), &bytes)).await {
            Ok(Ok(_)) => Outcome::Taken,
            Ok(Err(error)) => outcome(&error),
            Err(_) => failed("the mail server did not answer in time".to_owned(), true),
        }
    }
}

fn encrypted(server: &MailServer) -> Result<Tls, String> {
    let mut parameters = TlsParameters::builder(server.host.clone());
    if let Some(file) = &server.ca_file {
        let certificate =
            Certificate::from_pem(&read(file)?).map_err(|error| format!("{}: {error}", file.display()))?;
        parameters = parameters.add_root_certificate(certificate);
    }
    let parameters = parameters.build().map_err(|error| format!("cannot prepare TLS: {error}"))?;
    Ok(match server.security {
        Security::StartTls => Tls::Required(parameters),
        Security::Tls => Tls::Wrapper(parameters),
    })
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn failed(reason: String, by_the_way: bool) -> Outcome {
    Outcome::Failed { reason, wait: None, by_the_way }
}

fn outcome(error: &Error) -> Outcome {
    let reason: String = causes(error).chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect();
    let code = error.status().map(|code| code.to_string());
    match code {
        Some(code) if OF_LOGIN.contains(&code.as_str()) => failed(reason, true),
        Some(_) if error.is_permanent() => Outcome::Refused(reason),
        // A server that is closing answers 421 to everything.
        Some(code) => failed(reason, code == "421"),
        None => failed(reason, true),
    }
}

fn causes(error: &Error) -> String {
    let mut told = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !told.contains(&cause_text) {
            told = format!("{told}: {cause_text}");
        }
        source = cause.source();
    }
    told
}
