"""The four model APIs: endpoints, admitted requests, reported usage, errors."""
