"""Java: Maven tells the tests of Surefire and Failsafe by its reports, which are held against its own summary."""
