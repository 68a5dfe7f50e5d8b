"""Java: Maven tells tests by its reports, held against its own summary; Gradle tells them as its build hears of them."""
