"""What is known of the four APIs of models: their endpoints, what a request may hold, what a reply says that it used, errors."""
