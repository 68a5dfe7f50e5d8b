"""What is known of the four APIs of models: endpoints, what a request may hold, what a reply says that it used, errors."""
