"""The bus as an AsyncAPI 3 document, for people and for generators of clients in other languages: derived, never written."""
