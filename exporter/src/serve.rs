//! HTTP: metrics, health, landing page, TLS and basic auth.
