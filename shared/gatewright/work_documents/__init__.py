"""A run told in the documents of other systems. Facts carry over; what is not recorded is not said."""
