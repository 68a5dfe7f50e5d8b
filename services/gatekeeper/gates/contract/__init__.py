"""Gates on documents: may this request, contract or plan be carried out?"""
