//! What irqbalance is told by its environment file: `NAME=value` lines, as in irqbalance(1) and systemd.exec(5).

use super::{ParseError, Parsed, cpus, each_line};

/// Policies for the kernel's affinity hints, which older versions know.
const HINT_POLICIES: [&str; 3] = ["exact", "subset", "ignore"];

/// The settings that decide where interrupts go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// CPUs that are given no interrupts; `None` when irqbalance is left to choose them, which are the isolated and the
    /// tickless ones then.
    pub banned: Option<Vec<(u32, u32)>>,
    /// What becomes of the kernel's affinity hints: `exact`, `subset` or `ignore`, or `unknown` for any other word.
    pub hint_policy: Option<&'static str>,
    /// Does a script or a folder of scripts decide interrupt by interrupt?
    pub policy_script: bool,
    /// Does it end after it has balanced once?
    pub oneshot: bool,
}

/// Parses the file, which systemd reads as variables and init scripts as shell. Lines that set nothing of the above are not
/// judged.
pub fn settings(text: &str) -> Parsed<Settings> {
    let (mut settings, mut mask) = (Settings::default(), None);
    let parsed = each_line(text, |number, line| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else { return Ok(()) };
        let value = unquoted(value.trim());
        let at = |error: ParseError| ParseError { line: number, ..error };
        match name.trim() {
            // Empty means not set.
            "IRQBALANCE_BANNED_CPULIST" if !value.is_empty() => {
                settings.banned = Some(cpus::union(cpus::ranges(value).map_err(at)?));
            }
            "IRQBALANCE_BANNED_CPUS" if !value.is_empty() => mask = Some(cpus::mask(value).map_err(at)?),
            "IRQBALANCE_ONESHOT" => settings.oneshot = true,
            // The second is older packages' name.
            "IRQBALANCE_ARGS" | "OPTIONS" => arguments(value, &mut settings),
            _ => {}
        }
        Ok(())
    });
    // The mask is the older way.
    settings.banned = settings.banned.or(mask);
    parsed.map(|()| settings)
}

/// What stands between quotes, or before a comment.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(text) = value.strip_prefix(quote) {
            return text.split(quote).next().unwrap_or_default().trim();
        }
    }
    let end = value.find(" #").or_else(|| value.find("\t#")).unwrap_or(value.len());
    value[..end].trim().trim_matches(['"', '\''])
}

fn arguments(text: &str, settings: &mut Settings) {
    let mut words = text.split_ascii_whitespace();
    while let Some(word) = words.next() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("--oneshot" | "-o", _) => settings.oneshot = true,
            ("--policyscript" | "-l", _) => settings.policy_script = true,
            ("--hintpolicy", value) if !value.is_empty() => settings.hint_policy = Some(hint_policy(value)),
            ("--hintpolicy" | "-h", _) => settings.hint_policy = words.next().map(hint_policy),
            _ => {}
        }
    }
}

fn hint_policy(word: &str) -> &'static str {
    HINT_POLICIES.into_iter().find(|known| *known == word).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_distributions_file_sets_nothing() {
        let text = "# irqbalance is a daemon\n#IRQBALANCE_ONESHOT=\n\n#IRQBALANCE_BANNED_CPUS=fc0\nIRQBALANCE_ARGS=\n";
        assert_eq!(settings(text).value, Settings::default());
        assert_eq!(settings("").value, Settings::default());
    }

    #[test]
    fn cpus_that_get_no_interrupts() {
        let banned = |text: &str| settings(text).value.banned;
        assert_eq!(banned("IRQBALANCE_BANNED_CPULIST=\"4-7,9\"\n"), Some(vec![(4, 7), (9, 9)]));
        // The man page's two examples.
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=fc0"), Some(vec![(6, 11)]));
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS='ff000000,00000001'"), Some(vec![(0, 0), (56, 63)]));
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=1\nIRQBALANCE_BANNED_CPULIST=2\n"), Some(vec![(2, 2)]));
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=0\n"), Some(vec![]), "none is a choice");
        assert_eq!(banned("IRQBALANCE_BANNED_CPULIST=\"\"\nIRQBALANCE_BANNED_CPUS=\n"), None, "empty is none");
        assert_eq!(banned("IRQBALANCE_BANNED_CPULIST=0-3:1/2\n"), Some(vec![(0, 0), (2, 2)]));
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=0xff\n"), Some(vec![(0, 7)]));
        assert_eq!(banned("export IRQBALANCE_BANNED_CPULIST=\"2-3\" # the first socket's\n"), Some(vec![(2, 3)]));
        let read = settings("\nIRQBALANCE_BANNED_CPULIST=$(cat /x)\nIRQBALANCE_ONESHOT=1\n");
        let error = read.left_out.first.unwrap();
        assert_eq!((error.line, &*error.found, read.value.oneshot), (2, "$(cat /x)", true));
    }

    #[test]
    fn how_it_is_started() {
        let found = settings("IRQBALANCE_ONESHOT=yes\nIRQBALANCE_ARGS=\"--hintpolicy=exact --banirq=5\"\n").value;
        assert_eq!((found.oneshot, found.hint_policy, found.policy_script), (true, Some("exact"), false));
        let found = settings("OPTIONS='-h subset -l /etc/policy.d -o'\n").value;
        assert_eq!((found.oneshot, found.hint_policy, found.policy_script), (true, Some("subset"), true));
        assert_eq!(settings("IRQBALANCE_ARGS=--hintpolicy=never").value.hint_policy, Some("unknown"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(IRQBALANCE_(BANNED_CPU(S|LIST)|ARGS)=|\"|--hintpolicy|[0-9a-f]{1,9}|[,= #-]|\n|\\PC)*") {
            let _ = settings(&text);
        }
    }
}
