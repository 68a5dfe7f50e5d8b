"""Java: Maven tells tests by the reports of Surefire and Failsafe, held against its own summary; Gradle as its build hears of them."""
