//! What can be read on a colour.

/// Black or white, whichever contrasts more with a colour `#rrggbb`, as WCAG 2.2 measures contrast.
pub(super) fn ink(colour: &str) -> &'static str {
    // Where 1.05 / (y + 0.05), the contrast with white, equals (y + 0.05) / 0.05, that with black.
    const BALANCE: f64 = 0.179;
    if luminance(colour) > BALANCE { "#000000" } else { "#ffffff" }
}

/// Relative luminance, 0 to 1 (WCAG 2.2).
pub(super) fn luminance(colour: &str) -> f64 {
    let [red, green, blue] = linear(colour);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Red, green and blue of linear light, 0 to 1 each (IEC 61966-2-1).
pub(super) fn linear(colour: &str) -> [f64; 3] {
    let part = |from: usize| {
        let byte = colour.get(from..from + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let value = f64::from(byte.unwrap_or_default()) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    [part(1), part(3), part(5)]
}
