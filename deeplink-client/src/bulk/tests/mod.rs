//! The engine against a model of the service.
