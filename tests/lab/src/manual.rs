//! Man pages of both programs and completions for shells, made of their command lines.

use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate_to};
use goodput_analyzer::command::cli::Cli;
use goodput_exporter::config::Config;
use goodput_exporter::registry::REGISTRY;

/// Writes them into this folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path) -> io::Result<()> {
    for mut command in [Config::command_line(REGISTRY), Cli::command()] {
        let program = command.get_name().to_owned();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            generate_to(shell, &mut command, &program, folder)?;
        }
        clap_mangen::generate_to(command, folder)?;
    }
    Ok(())
}
