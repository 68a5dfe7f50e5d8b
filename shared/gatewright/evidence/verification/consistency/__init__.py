"""Does the story contradict itself? A key does not make a lie true: document against document, by the rules that decided."""
