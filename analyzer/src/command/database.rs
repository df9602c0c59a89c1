//! Which PostgreSQL has the results, for the commands that can read or write them there.

use std::path::PathBuf;

use goodput_store::postgres::{Address, Postgres};

/// A database of results.
#[derive(clap::Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// PostgreSQL with the results of a fleet, in place of --data.dir: postgres://USER@HOST/DATABASE?sslmode=verify-full; PG* variables give what it leaves out
    #[arg(id = "database_url", long = "database.url", value_name = "URL")]
    pub url: Option<String>,
    /// File with the password of its user, else PGPASSWORD or ~/.pgpass
    #[arg(
        id = "database_password_file",
        long = "database.password-file",
        value_name = "FILE",
        requires = "database_url"
    )]
    pub password_file: Option<PathBuf>,
}

impl DatabaseArgs {
    /// The address; none where none was given.
    pub(super) fn address(&self) -> anyhow::Result<Option<Address>> {
        let address = self.url.as_deref().map(|url| Address::parse(url, self.password_file.as_deref()));
        Ok(address.transpose()?)
    }

    /// The results to be read there, all of one instant; none where no address was given.
    pub(super) async fn look(&self) -> anyhow::Result<Option<Postgres>> {
        match self.address()? {
            Some(address) => Ok(Some(Postgres::look(&address).await?)),
            None => Ok(None),
        }
    }
}
