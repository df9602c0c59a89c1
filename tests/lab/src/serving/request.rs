//! A request, and what a step gives.

/// A request that was asked and not answered in full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// When it came.
    pub(super) arrived: f64,
    /// When it came to the engine.
    pub(super) queued: f64,
    /// When it was first computed.
    pub(super) scheduled: Option<f64>,
    /// When the engine had its first token.
    pub(super) first: Option<f64>,
    /// When the engine had its last token so far.
    pub(super) last: f64,
    pub(super) prompt: usize,
    /// Tokens that its answer will have.
    pub(super) answer: usize,
    /// Tokens that its answer has.
    pub(super) generated: usize,
    /// Tokens whose keys and values are in memory.
    pub(super) computed: usize,
    /// Tokens that were in memory before it lost its place.
    pub(super) known: usize,
    /// Tokens that the step computes.
    pub(super) now: usize,
}

impl Request {
    pub(super) fn new(arrived: f64, prompt: usize, answer: usize) -> Self {
        Request {
            arrived,
            queued: arrived,
            scheduled: None,
            first: None,
            last: 0.0,
            prompt,
            answer,
            generated: 0,
            computed: 0,
            known: 0,
            now: 0,
        }
    }

    /// Tokens to be computed until there is the next one of the answer.
    pub(super) fn uncomputed(&self) -> usize {
        self.prompt + self.generated - self.computed
    }

    /// Is only the last token of its answer not computed yet?
    pub(super) fn decodes(&self) -> bool {
        self.generated > 0 && self.uncomputed() == 1
    }

    /// Of the tokens that the step computes, those that were in memory before.
    pub(super) fn again(&self) -> usize {
        self.known.saturating_sub(self.computed).min(self.now)
    }

    /// Tokens that have room in memory, with those of the step.
    pub(super) fn held(&self) -> usize {
        self.computed + self.now
    }

    /// It loses its place in memory.
    pub(super) fn retract(&mut self) {
        self.known = self.known.max(self.computed);
        (self.computed, self.now) = (0, 0);
    }
}

/// What a step gave, on its way through the front end.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Tokens of answers.
    pub(super) tokens: usize,
    /// Tokens that the step computed of prompts.
    pub(super) prompt_tokens: usize,
    /// When each request came that has its first token here.
    pub(super) first: Vec<f64>,
    /// Time since the token before, of each request that has another one.
    pub(super) later: Vec<f64>,
    /// Requests that have their last token here.
    pub(super) finished: Vec<Request>,
}
