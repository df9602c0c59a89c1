//! Which PostgreSQL, and as whom. The password is never shown, and never in an address.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};

use crate::StoreError;

/// The parameters of a URL that mean something here.
const PARAMETERS: [&str; 10] =
    ["sslmode", "sslrootcert", "sslcert", "sslkey", "host", "port", "dbname", "user", "application_name", "options"];

/// Where a database is, and how it is connected to.
#[derive(Clone)]
pub struct Address {
    options: PgConnectOptions,
    server: String,
}

/// Why an address is none.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is no URL of PostgreSQL.
    #[error(
        "--database.url: expected postgres://USER@HOST/DATABASE, such as postgres://goodput@db.example/goodput?sslmode=verify-full"
    )]
    Expected,
    /// Every user of the machine can read a command line.
    #[error(
        "--database.url has a password in it, which every user of this machine can read; expected it in the file of --database.password-file, or in PGPASSWORD"
    )]
    HasPassword,
    /// A parameter that is not known.
    #[error("--database.url has a parameter {name:?} that is not known; expected {}", PARAMETERS.join(", "))]
    Unknown {
        /// Its name.
        name: String,
    },
    /// A value that is wrong.
    #[error("--database.url: {0}")]
    Wrong(String),
    /// The password cannot be read.
    #[error("cannot read {path}: {error}")]
    PasswordFile {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.server)
    }
}

impl Address {
    /// The database of a URL; what the URL leaves out is that of PG* variables. The password is that of the file, else of
    /// PGPASSWORD or ~/.pgpass.
    pub fn parse(url: &str, password_file: Option<&Path>) -> Result<Self, AddressError> {
        check(url)?;
        let mut options: PgConnectOptions = url.parse().map_err(|error| AddressError::Wrong(reason(&error)))?;
        if let Some(path) = password_file {
            let read = std::fs::read_to_string(path);
            let text = read.map_err(|error| AddressError::PasswordFile { path: path.to_owned(), error })?;
            options = options.password(text.trim_end_matches(['\r', '\n']));
        }
        if options.get_application_name().is_none() {
            options = options.application_name("goodput-analyzer");
        }
        let host = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or(options.get_username());
        let server = format!("PostgreSQL {database} at {host}");
        Ok(Self { options: options.disable_statement_logging(), server })
    }

    /// Database and host, for messages.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    pub(super) fn failed(&self, error: sqlx::Error) -> StoreError {
        StoreError::Server { server: self.server.clone(), error }
    }

    /// A connection of its own.
    pub(super) async fn connect(&self, patience: Duration) -> Result<PgConnection, StoreError> {
        let connected = tokio::time::timeout(patience, self.options.connect()).await;
        let connected = connected.unwrap_or_else(|_| Err(sqlx::Error::PoolTimedOut));
        connected.map_err(|error| match error {
            sqlx::Error::PoolTimedOut => {
                StoreError::Silent { server: self.server.clone(), seconds: patience.as_secs() }
            }
            error => self.failed(error),
        })
    }
}

/// What is wrong with a value: sqlx wraps it once or twice.
fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Configuration(cause) => match cause.downcast_ref::<sqlx::Error>() {
            Some(inner) => reason(inner),
            None => cause.to_string(),
        },
        error => error.to_string(),
    }
}

/// Refuses what is no URL of PostgreSQL, and one with a password. No message shows a part of it but the name of a parameter.
fn check(url: &str) -> Result<(), AddressError> {
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let rest = rest.ok_or(AddressError::Expected)?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let user = place.rsplit_once('@').map_or("", |(user, _)| user);
    // A password may have a question mark, and what looks like parameters is the rest of it.
    if user.contains(':') || query.contains('@') {
        return Err(AddressError::HasPassword);
    }
    for name in query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty()) {
        if name == "password" {
            return Err(AddressError::HasPassword);
        }
        if !PARAMETERS.contains(&name) {
            return Err(AddressError::Unknown { name: name.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_password_and_no_message_shows_one() {
        for url in [
            "postgres://u:s3cret@h/d",
            "postgres://u@h/d?password=s3cret",
            "postgresql://u:s3cret@h:5432/d?sslmode=require",
            "postgres://u:s3:cret@[::1]/d",
            "postgres://u:p?s3cret@h/d",
        ] {
            let error = Address::parse(url, None).unwrap_err().to_string();
            assert!(error.contains("--database.password-file") && !error.contains("cret"), "{error}");
        }
        let wrong = |url: &str| Address::parse(url, None).unwrap_err().to_string();
        for url in ["mysql://u:s3cret@h/d", "h/d", "u:s3cret@h"] {
            let error = wrong(url);
            assert!(error.contains("expected postgres://USER@HOST/DATABASE") && !error.contains("s3cret"), "{error}");
        }
        assert!(wrong("postgres://u@h/d?pasword=s3cret").ends_with("dbname, user, application_name, options"));
        assert!(wrong("postgres://u@h/d?sslmode=on").contains("on"));
        assert!(wrong("postgres://u@h:port/d").contains("port"));
    }

    #[test]
    fn the_password_is_that_of_the_file_and_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, "s3cret\n").unwrap();
        let address = Address::parse("postgres://u@h:1/d?sslmode=verify-full", Some(&path)).unwrap();
        assert_eq!(format!("{address:?}"), "PostgreSQL d at h:1");
        assert!(address.options().to_url_lossy().as_str().contains("s3cret@"));
        std::fs::remove_file(&path).unwrap();
        let error = Address::parse("postgres://u@h/d", Some(&path)).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /"), "{error}");
    }
}
