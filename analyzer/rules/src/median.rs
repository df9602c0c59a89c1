//! The middle of numbers.

/// Of two in the middle, their mean; `None` of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&values)
}

/// The same of values in order.
pub fn median_of_sorted(values: &[f64]) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[last.div_ceil(2)]))
}

/// Of two in the middle, the greater: always one of the values.
pub fn upper_median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_few() {
        assert_eq!((median(Vec::new()), upper_median(Vec::new())), (None, None));
        assert_eq!((median(vec![0.9, 0.3, 0.4]), upper_median(vec![0.9, 0.3, 0.4])), (Some(0.4), Some(0.4)));
        assert_eq!((median(vec![0.75, 0.25]), upper_median(vec![0.75, 0.25])), (Some(0.5), Some(0.75)));
    }
}
