//! What inference servers served in the last hour that is over, by model. Servers that do not name theirs are not in it.

crate::metric_rows! {
    REQUESTS = Gauge None "goodput_serving_requests" ["model"] {
        "Requests to the model that ended in the last hour that is over.",
        by "verdicts", series "1 per model", since "0.2.0"
    }
    REQUEST_RATE = Gauge None "goodput_serving_requests_per_gpu_second" ["model"] {
        "Requests that ended, per second of a GPU that the servers of the model held, in the last hour that is over.",
        by "verdicts", series "1 per model", since "0.2.0"
    }
    TOKENS = Gauge None "goodput_serving_generation_tokens_per_gpu_second" ["model", "basis"] {
        "Tokens of answers per second of a GPU, in the last hour that is over. Basis held: of all the time held; productive: of the productive time alone.",
        by "verdicts", series "2 per model", since "0.2.0"
    }
    ATTAINMENT = Gauge Ratio "goodput_serving_slo_attainment_ratio" ["model", "bound"] {
        "Share of requests that kept all limits of serving.slo in the last hour that is over: at least (bound lower) and at most (upper). Absent without limits, and where they are not measured.",
        by "verdicts", series "2 per model with limits", since "0.2.0"
    }
    TARGET = Gauge Ratio "goodput_serving_slo_target_ratio" ["model"] {
        "Share of requests that is to keep all limits, as serving.slo says.",
        by "verdicts", series "1 per model with limits", since "0.2.0"
    }
    COST = Gauge None "goodput_serving_cost_per_million_tokens" ["model", "kind", "basis", "currency"] {
        "Price of the GPU time of a million tokens, in the last hour that is over. Kind generation: of answers; all: of prompts and answers. Basis held: for all the time held; productive: for the productive time alone.",
        by "verdicts", series "up to 3 per model", since "0.2.0"
    }
    JOULES = Gauge None "goodput_serving_joules_per_token" ["model"] {
        "Energy of the GPUs per token of an answer, in the last hour that is over.",
        by "verdicts", series "1 per model", since "0.2.0"
    }
    SPARE_REPLICAS = Gauge None "goodput_serving_spare_replicas" ["model"] {
        "Replicas of the model that reported all the time, beyond those that its requests needed in the busiest five minutes of the last hour that is over.",
        by "verdicts", series "1 per model", since "0.2.0"
    }
}
