//! What irqbalance is told by its environment file: `NAME=value` lines, as in irqbalance(1) and systemd.exec(5).

use super::{ParseError, cpus, lines};

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

/// Parses the file. Lines that set nothing of the above are not judged.
pub fn settings(text: &str) -> Result<Settings, ParseError> {
    let (mut settings, mut mask) = (Settings::default(), None);
    for (number, line) in lines(text) {
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else { continue };
        let value = value.trim().trim_matches(['"', '\'']).trim();
        let at = |error: ParseError| ParseError { line: number, ..error };
        match name.trim() {
            // Empty is as good as not set.
            "IRQBALANCE_BANNED_CPULIST" if !value.is_empty() => {
                settings.banned = Some(cpus::union(cpus::ranges(value).map_err(at)?));
            }
            "IRQBALANCE_BANNED_CPUS" if !value.is_empty() => mask = Some(cpus::mask(value).map_err(at)?),
            "IRQBALANCE_ONESHOT" => settings.oneshot = true,
            // The second is older packages' name.
            "IRQBALANCE_ARGS" | "OPTIONS" => arguments(value, &mut settings),
            _ => {}
        }
    }
    // The mask is the older way.
    settings.banned = settings.banned.or(mask);
    Ok(settings)
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
        assert_eq!(settings(text), Ok(Settings::default()));
        assert_eq!(settings(""), Ok(Settings::default()));
    }

    #[test]
    fn cpus_that_get_no_interrupts() {
        let banned = |text: &str| settings(text).unwrap().banned;
        assert_eq!(banned("IRQBALANCE_BANNED_CPULIST=\"4-7,9\"\n"), Some(vec![(4, 7), (9, 9)]));
        // The man page's two examples.
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=fc0"), Some(vec![(6, 11)]));
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS='ff000000,00000001'"), Some(vec![(0, 0), (56, 63)]));
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=1\nIRQBALANCE_BANNED_CPULIST=2\n"), Some(vec![(2, 2)]));
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=0\n"), Some(vec![]), "none is a choice");
        assert_eq!(banned("IRQBALANCE_BANNED_CPULIST=\"\"\nIRQBALANCE_BANNED_CPUS=\n"), None, "empty is none");
        let error = settings("\nIRQBALANCE_BANNED_CPULIST=all\n").unwrap_err();
        assert_eq!((error.line, &*error.found), (2, "all"));
        assert_eq!(settings("IRQBALANCE_BANNED_CPUS=0xff\n").unwrap_err().line, 1);
    }

    #[test]
    fn how_it_is_started() {
        let found = settings("IRQBALANCE_ONESHOT=yes\nIRQBALANCE_ARGS=\"--hintpolicy=exact --banirq=5\"\n").unwrap();
        assert_eq!((found.oneshot, found.hint_policy, found.policy_script), (true, Some("exact"), false));
        let found = settings("OPTIONS='-h subset -l /etc/policy.d -o'\n").unwrap();
        assert_eq!((found.oneshot, found.hint_policy, found.policy_script), (true, Some("subset"), true));
        assert_eq!(settings("IRQBALANCE_ARGS=--hintpolicy=never").unwrap().hint_policy, Some("unknown"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "(IRQBALANCE_(BANNED_CPU(S|LIST)|ARGS)=|\"|--hintpolicy|[0-9a-f]{1,9}|[,= #-]|\n|\\PC)*") {
            let _ = settings(&text);
        }
    }
}
