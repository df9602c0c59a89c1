//! Store to verdict: loads frames, runs the rules, stores the intervals.
