"""Gates on changes: is the difference between two trees what the contract ordered?"""
